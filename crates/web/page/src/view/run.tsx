import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { keyed } from "../draw/gestures";
import type { View } from "../engine/types";
import { analyse, close, failed, type Run, saveResults } from "../lab";
import { within } from "../state";
import { time, value } from "../units";
import { Panel } from "./panel";

/** What a table has room for, in words; the others are in the CSV. Shares are shown in per cent. */
const SHOWN: [name: string, title: string, share?: true][] = [
  ["throughput_bps", "throughput"],
  ["normalised_mean", "of the limit", true],
  ["normalised_p99", "99 % of windows below", true],
  ["drop_rate", "dropped", true],
  ["jain_median", "fairness (Jain)"],
  ["rtt_p50_ms", "RTT"],
  ["rtt_p95_ms", "RTT, 95 % below"],
  ["transfers", "transfers done"],
  ["transfer_p50_s", "median time of one"],
];

function text(
  cell: string | number | boolean | null | undefined,
  { unit, share }: { unit: string; share: boolean },
): string {
  if (cell === null || cell === undefined) return "-";
  if (typeof cell !== "number") return String(cell);
  if (share) return value(cell * 100, "%");
  if (unit === "bit/s" || unit === "B") return value(cell, unit);
  if (unit === "ms") return time(cell / 1e3);
  if (unit === "s") return time(cell);
  return Number.isInteger(cell) ? String(cell) : cell.toFixed(3);
}

/** A scenario that was run: a line for each point of its sweep, and the curves of one of them. */
export function RunView({ run }: { run: Run }) {
  const { result } = run;
  const point = useSignal(0);
  const range = useSignal({ from: 0, to: result.seconds });
  const whole = result.seconds;
  const look = (from: number, to: number) => {
    range.value = within(from, to, whole);
  };
  const chosen = point.value;
  const numbers = useMemo(
    () => (panel: string, view: View) =>
      run.engine.numbers({ ask: "point-panel", point: chosen, panel, view }),
    [run, chosen],
  );
  const columns = [
    ...SHOWN.flatMap(([name, title, share = false]) =>
      result.columns.flatMap((column) => (column.name === name ? { ...column, title, share } : [])),
    ),
    // What each group of flows got.
    ...result.columns.flatMap((column) =>
      column.name.startsWith("share_")
        ? { ...column, title: column.name.replaceAll("_", " "), share: true }
        : [],
    ),
  ].filter(({ name }) => result.points.some(({ values }) => values[name] != null));
  const key = (event: KeyboardEvent) => {
    const next = keyed(event.key, range.peek(), whole);
    if (!next || event.target !== event.currentTarget) return;
    event.preventDefault();
    look(next.from, next.to);
  };
  return (
    <article class="run" data-run={run.number} aria-label={`Run ${run.number}`}>
      <h2>
        {run.number}. {result.title}{" "}
        <button type="button" aria-label={`Close run ${run.number}`} onClick={() => close(run)}>
          Close
        </button>{" "}
        <button
          type="button"
          aria-label={`Save the results of run ${run.number} as CSV`}
          onClick={() => void saveResults(run)}
        >
          CSV
        </button>
      </h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Results">
        <table>
          <thead>
            <tr>
              <th scope="col">point</th>
              {columns.map((column) => (
                <th key={column.name} scope="col" title={column.doc}>
                  {column.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {result.points.map(({ values }, index) => (
              <tr
                key={String(values.point)}
                class={index === chosen ? "chosen" : ""}
                data-values={JSON.stringify(values)}
              >
                <th scope="row">
                  <button
                    type="button"
                    aria-pressed={index === chosen}
                    onClick={() => {
                      point.value = index;
                    }}
                  >
                    {String(values.parameters || index)}
                  </button>
                </th>
                {columns.map((column) => (
                  <td key={column.name}>{text(values[column.name], column)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {result.captures.length > 0 && (
        <p>
          Captures of its taps:{" "}
          {result.captures.map((name) => (
            <button key={name} type="button" onClick={() => void analyse(run, name)}>
              {name}
            </button>
          ))}
        </p>
      )}
      <div
        class="picture"
        tabIndex={0}
        role="group"
        aria-label="Curves of the point. Plus and minus zoom, arrow keys move, 0 shows all."
        onKeyDown={key}
      >
        {result.points[chosen]?.panels.map((info) => (
          <Panel
            key={`${chosen} ${info.key}`}
            info={info}
            range={range}
            look={look}
            whole={whole}
            numbers={numbers}
            failed={(error) => failed(run, error)}
            hover={() => {}}
            select={() => {}}
          />
        ))}
      </div>
    </article>
  );
}
