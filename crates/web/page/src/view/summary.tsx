import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Summary, View } from "../engine/types";
import { edition, engine, failing, range } from "../state";
import { plural, value } from "../units";
import { Panel } from "./panel";

const numbers = (panel: string, view: View) => engine.numbers({ ask: "summary-panel", panel, view });

/** What the transfers that the table shows say together. */
export function SummaryView() {
  const open = useSignal(false);
  const told = useSignal<{ edition: number; summary: Summary } | null>(null);
  const current = edition.value;
  useEffect(() => {
    if (!open.value) return;
    void engine
      .ask<Summary>({ ask: "summary" })
      .then((summary) => {
        if (edition.value === current) told.value = { edition: current, summary };
      })
      .catch(failing(() => edition.value === current));
  }, [open.value, current]);
  const shown = told.value;
  return (
    <details
      class="summary"
      onToggle={(event) => {
        open.value = event.currentTarget.open;
      }}
    >
      <summary>Summary of the transfers that are listed</summary>
      {shown && open.value && (
        <>
          <div class="parts">
            <section>
              <h2>Verdicts</h2>
              <ul class="verdicts">
                {shown.summary.verdicts.map(({ cause, transfers }) => (
                  <li key={cause}>
                    {plural(transfers, "transfer")}: {cause}
                  </li>
                ))}
              </ul>
            </section>
            {shown.summary.rates.length > 0 && (
              <section>
                <h2>Rates of policers, in clusters of ±5 %</h2>
                <ul class="clusters">
                  {shown.summary.rates.map(({ bps, transfers }) => (
                    <li key={bps}>
                      {value(bps, "bit/s")}: {transfers} of{" "}
                      {plural(shown.summary.policed, "policed transfer")}
                    </li>
                  ))}
                </ul>
              </section>
            )}
          </div>
          <div class="spreads">
            {shown.summary.panels.map((info) => (
              <Panel
                key={`${shown.edition} ${info.key}`}
                info={info}
                range={range}
                whole={1}
                numbers={numbers}
                failed={failing(() => edition.value === shown.edition)}
                hover={() => {}}
                select={() => {}}
              />
            ))}
          </div>
        </>
      )}
    </details>
  );
}
