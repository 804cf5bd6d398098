import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { keyed } from "../draw/gestures";
import type { Range } from "../draw/panel";
import type { Crossed, Crossing, View } from "../engine/types";
import {
  between,
  captures,
  compare,
  comparing,
  comparison,
  engine,
  failing,
  leaveComparison,
  lookBetween,
  saveBetween,
} from "../state";
import { plural, time, value } from "../units";
import { Keys, MEASURES, MOVES } from "./keys";
import { Panel } from "./panel";
import { SaidLine, Selection, useSaid } from "./said";

/** Chooses two of the captures that are open. */
export function CompareForm() {
  const read = captures.value.filter(({ report }) => report);
  const chosen = useSignal<[number, number] | null>(null);
  if (read.length < 2) return null;
  const known = chosen.value?.every((number) => read.some((one) => one.number === number));
  const [a, b] = (known && chosen.value) || [read[0]?.number ?? 0, read[1]?.number ?? 0];
  const choice = (label: string, value: number, choose: (number: number) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => choose(Number(event.currentTarget.value))}>
        {read.map(({ number, name }) => (
          <option key={number} value={number}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
  const submit = (event: Event) => {
    event.preventDefault();
    void compare(a, b);
  };
  return (
    <form class="tools compare" aria-label="Compare two captures" onSubmit={submit}>
      <span>Two captures of the same traffic from two places:</span>
      {choice("A", a, (number) => {
        chosen.value = [number, b];
      })}
      {choice("B", b, (number) => {
        chosen.value = [a, number];
      })}
      <button type="submit" disabled={a === b || comparing.value}>
        Compare
      </button>
      {comparing.value && <progress aria-label="Comparing" />}
    </form>
  );
}

const FATES: Record<string, string> = {
  lost: "lost between the places",
  missed: "it passed, but the second capture missed it",
  uncovered: "the second capture was not running then",
};

function words(packet: Crossing): string {
  const { at_s, to_b, sender, receiver, bytes, in_flight, in_burst, fate, transit_s } = packet;
  const facts = [
    bytes > 0 ? `${bytes} B of data` : "no data",
    `${value(in_flight, "B")} in flight`,
    `${value(in_burst, "B")} before it in its burst`,
    transit_s === null ? (FATES[fate] ?? fate) : `${time(transit_s)} on its way`,
  ];
  const way = to_b ? "from A to B" : "from B to A";
  return `Packet ${way} at ${at_s.toFixed(6)} s, ${sender} > ${receiver}: ${facts.join(", ")}`;
}

function measured(part: Range, found: Crossed): string {
  const transit =
    found.transit_median_s === null ? "" : `, median transit time ${time(found.transit_median_s)}`;
  return `${time(part.to - part.from)} selected: ${plural(found.packets, "packet")}, ${value(found.bytes, "B")}, ${value(found.bps, "bit/s")} of payload, ${found.lost.toLocaleString("en")} lost between the places${transit}`;
}

const numbers = (panel: string, view: View) => engine.numbers({ ask: "between-panel", panel, view });

/** What `tidegate diagnose` says of two captures, and its pictures over one axis of time. */
export function ComparisonView() {
  const shown = comparison.value;
  // While other captures are compared, the engine may know those already.
  const failed = failing(() => comparison.value === shown && !comparing.value);
  const state = useSaid(
    async (at) => {
      const packet = await engine.ask<Crossing | null>({ ask: "between-packet", at });
      return packet && words(packet);
    },
    async (part) => measured(part, await engine.ask<Crossed>({ ask: "between-measure", ...part })),
    failed,
  );
  const { part, hover, select } = state;
  useEffect(() => void select(null), [shown]);
  if (!shown) return null;
  const { told, of } = shown;
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "m") void select(between.peek());
    if (event.key === "Escape") void select(null);
    const next = keyed(event.key, between.peek(), told.seconds);
    if (!next) return;
    event.preventDefault();
    lookBetween(next.from, next.to);
  };
  return (
    <article class="transfer comparison" aria-labelledby="compared">
      <div class="story">
        <p class="quiet">
          Two captures compared{" "}
          <button type="button" onClick={leaveComparison}>
            Close the comparison
          </button>
        </p>
        <h2 id="compared" class={`cause ${told.between}`}>
          {told.headline}
        </h2>
        <ul class="plain">
          {told.captures.map((line) => (
            <li key={line}>{line}</li>
          ))}
          {told.clocks && <li>{told.clocks}</li>}
        </ul>
        <div class="parts">
          {told.ways.map(({ heading, lines }) => (
            <section key={heading}>
              <h3>{heading}</h3>
              <dl>
                {lines.map(({ name, text }) => (
                  <div key={`${name} ${text}`}>
                    <dt>{name}</dt>
                    <dd>{text}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
      </div>
      <section
        class="picture"
        tabIndex={0}
        role="group"
        aria-label="Pictures of the comparison. Plus and minus zoom, arrow keys move, 0 shows all, M measures what is shown."
        onKeyDown={key}
      >
        <p class="quiet">
          The wheel zooms, dragging moves, dragging with Shift measures, a double click shows all.{" "}
          <Selection state={state} range={between} save={(from, to) => void saveBetween(from, to)} />
        </p>
        <Keys keys={[...MOVES, ...MEASURES]} />
        {told.panels.map((info) => (
          <Panel
            key={`${of.join()} ${info.key}`}
            info={info}
            range={between}
            look={lookBetween}
            whole={told.seconds}
            numbers={numbers}
            failed={failed}
            hover={(at) => void hover(at)}
            select={(part) => void select(part)}
            selected={part}
          />
        ))}
        <SaidLine state={state} />
      </section>
    </article>
  );
}
