import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Column, Line } from "../engine/types";
import {
  arrange,
  arranged,
  arrangement,
  columns,
  edition,
  explain,
  failing,
  lines,
  place,
  saveCsv,
} from "../state";
import { plural } from "../units";
import { MOST_PARTS, PART, part, SPARE, scrolled, TALLEST } from "./window";

const ROW = 30;

function Head({ column }: { column: Column }) {
  const { sort, descending } = arrangement.value;
  const sorted = sort === column.key;
  const next = () => void arrange({ sort: column.key, descending: sorted ? !descending : column.number });
  return (
    <span
      role="columnheader"
      class={`cell ${column.key}${column.number ? " number" : ""}`}
      aria-sort={sorted ? (descending ? "descending" : "ascending") : "none"}
    >
      <button type="button" title={column.doc} onClick={next}>
        {column.title}
        <span aria-hidden="true">{sorted ? (descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </span>
  );
}

function Row({
  line,
  index,
  active,
  top,
}: {
  line: Line | undefined;
  index: number;
  active: boolean;
  top: number;
}) {
  const shown = place.value;
  const chosen =
    line &&
    shown?.capture === line.capture &&
    shown.flow === line.flow &&
    shown.segment === line.segment &&
    shown.from_client === line.from_client;
  return (
    <div
      role="row"
      id={`line-${index}`}
      class={`row${active ? " active" : ""}${chosen ? " chosen" : ""}`}
      aria-rowindex={index + 2}
      aria-selected={Boolean(chosen)}
      style={{ top: `${top}px` }}
      onClick={() => line && void explain(line)}
    >
      {columns.value.map((column, i) => (
        <span
          key={column.key}
          role="gridcell"
          class={`cell ${column.key}${column.number ? " number" : ""}${column.key === "verdict" ? ` cause ${line?.cause ?? ""}` : ""}`}
          title={column.number ? undefined : line?.cells[i]}
        >
          {line?.cells[i] ?? "…"}
        </span>
      ))}
    </div>
  );
}

function Tools() {
  const { find, cause, all } = arrangement.value;
  const counts = arranged.value;
  return (
    <form class="tools" role="search" onSubmit={(event) => event.preventDefault()}>
      <label>
        Find{" "}
        <input
          type="search"
          value={find}
          onInput={(event) => void arrange({ find: event.currentTarget.value })}
        />
      </label>
      <label>
        Verdict{" "}
        <select
          value={cause ?? ""}
          onChange={(event) =>
            void arrange({ cause: event.currentTarget.value || undefined } as { cause?: string })
          }
        >
          <option value="">all</option>
          {Object.entries(counts?.causes ?? {}).map(([name, count]) => (
            <option key={name} value={name}>
              {name} ({count})
            </option>
          ))}
        </select>
      </label>
      {counts && counts.short > 0 && (
        <label>
          <input
            type="checkbox"
            checked={all}
            onChange={(event) => void arrange({ all: event.currentTarget.checked })}
          />{" "}
          with {counts.short} of fewer than {counts.least_packets} data packets
        </label>
      )}
      <span role="status" class="quiet">
        {counts ? `${counts.shown.toLocaleString("en")} of ${plural(counts.all, "transfer")}` : ""}
      </span>
      <button type="button" onClick={() => void saveCsv()}>
        CSV
      </button>
    </form>
  );
}

/** The transfers. Only the lines in view are in the document, so that a million scroll as ten do. */
export function Table() {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(400);
  const active = useSignal(0);
  const known = useRef(new Map<number, Line[]>());
  /** Grows when lines have come. */
  const arrived = useSignal(0);
  const asking = useRef(false);
  const count = arranged.value?.shown ?? 0;
  const current = edition.value;

  useEffect(() => {
    known.current = new Map();
    active.value = 0;
  }, [current]);

  const view = () => scrolled({ top: top.value, height: height.value, row: ROW, count });
  const { first, last, shift } = view();
  const wanted = useRef<() => number | undefined>(() => undefined);
  wanted.current = () => part(first, last).find((number) => !known.current.has(number));

  /** Asks for the lines in view, one part after the other: those that were scrolled past meanwhile are not asked for. */
  const ask = async () => {
    if (asking.current) return;
    asking.current = true;
    for (let number = wanted.current(); number !== undefined; number = wanted.current()) {
      const of = known.current;
      const found = await lines(number * PART, PART).catch(failing(() => known.current === of));
      if (found) of.set(number, found);
      // What failed is asked for again when the view changes.
      else if (known.current === of) break;
      for (const old of of.keys()) {
        if (of.size <= MOST_PARTS) break;
        of.delete(old);
      }
      arrived.value += 1;
      // The effects that look at the view have run by then.
      await new Promise((done) => setTimeout(done));
    }
    asking.current = false;
  };
  arrived.value;

  useEffect(() => {
    void ask();
  }, [first, last, current]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const line = (index: number) => known.current.get(Math.floor(index / PART))?.[index % PART];

  const move = (to: number) => {
    const next = Math.min(Math.max(to, 0), count - 1);
    active.value = next;
    const element = box.current;
    if (!element) return;
    const whole = Math.min(count * ROW, TALLEST);
    const scale = (whole - height.value) / Math.max(count * ROW - height.value, 1);
    const room = height.value - 2 * ROW;
    const above = next * ROW;
    const at = element.scrollTop / Math.max(scale, 1e-9);
    if (above < at) element.scrollTop = above * scale;
    else if (above > at + room) element.scrollTop = (above - room) * scale;
  };

  const key = (event: KeyboardEvent) => {
    const page = Math.max(Math.floor(height.value / ROW) - 2, 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = steps[event.key];
    if (step !== undefined) move(active.value + step);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(count - 1);
    else if (event.key === "Enter" && event.target === box.current) {
      const chosen = line(active.value);
      if (chosen) void explain(chosen);
    } else return;
    event.preventDefault();
  };

  const indices = Array.from({ length: Math.max(last - first, 0) }, (_, i) => first + i);
  // Rows that are scrolled out of view become those that come into view: their elements are not made again.
  const places = Math.ceil(height.value / ROW) + 2 * SPARE + 2;
  return (
    <section class="table" aria-label="Transfers">
      <Tools />
      <div
        ref={box}
        class="grid"
        role="grid"
        tabIndex={0}
        aria-label="Transfers. Arrow keys move, Enter explains."
        aria-rowcount={count + 1}
        aria-activedescendant={
          count > 0 && active.value >= first && active.value < last ? `line-${active.value}` : undefined
        }
        onScroll={(event) => {
          top.value = event.currentTarget.scrollTop;
        }}
        onKeyDown={key}
      >
        <div role="row" class="row head" aria-rowindex={1}>
          {columns.value.map((column) => (
            <Head key={column.key} column={column} />
          ))}
        </div>
        <div role="rowgroup" class="lines" style={{ height: `${Math.min(count * ROW, TALLEST)}px` }}>
          {indices.map((index) => (
            <Row
              key={index % places}
              line={line(index)}
              index={index}
              active={index === active.value}
              top={index * ROW - shift}
            />
          ))}
        </div>
      </div>
    </section>
  );
}
