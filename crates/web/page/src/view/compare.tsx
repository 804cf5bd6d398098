import { useSignal } from "@preact/signals";
import { keyed } from "../draw/gestures";
import type { View } from "../engine/types";
import { between, captures, compare, comparing, comparison, engine, leaveComparison } from "../state";
import { Panel } from "./panel";

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

const numbers = (panel: string, view: View) => engine.numbers({ ask: "between-panel", panel, view });

/** What `tidegate diagnose` says of two captures, and its pictures over one axis of time. */
export function ComparisonView() {
  const shown = comparison.value;
  if (!shown) return null;
  const { told, of } = shown;
  const look = (from: number, to: number) => {
    const width = Math.min(Math.max(to - from, 1e-6), told.seconds);
    const left = Math.min(Math.max(from, 0), told.seconds - width);
    between.value = { from: left, to: left + width };
  };
  const key = (event: KeyboardEvent) => {
    const next = keyed(event.key, between.peek(), told.seconds);
    if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    look(next.from, next.to);
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
        aria-label="Pictures of the comparison. Plus and minus zoom, arrow keys move, 0 shows all."
        onKeyDown={key}
      >
        {told.panels.map((info) => (
          <Panel
            key={`${of.join()} ${info.key}`}
            info={info}
            range={between}
            look={look}
            whole={told.seconds}
            numbers={numbers}
            hover={() => {}}
            select={() => {}}
          />
        ))}
      </section>
    </article>
  );
}
