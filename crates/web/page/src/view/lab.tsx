import "./lab.css";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import {
  begin,
  checked,
  examples,
  link,
  live,
  mistake,
  name,
  progress,
  run,
  runs,
  show,
  stop,
  use,
  withheld,
} from "../lab";
import { SCENARIOS } from "../studies";
import { plural, time } from "../units";
import { Editor } from "./editor";
import { Limiters } from "./limiters";
import { LiveView } from "./live";
import { RunView } from "./run";

function State() {
  const found = checked.value;
  if (mistake.value) {
    return (
      <p class="problem" role="alert">
        {mistake.value}
      </p>
    );
  }
  return (
    <p class="quiet" role="status">
      {found &&
        `${found.title}: ${plural(found.points, "point")}, ${plural(found.seeds, "seed")}, ${time(found.work_s)} to simulate`}
    </p>
  );
}

/** Says that the address names another scenario than the one that is shown. */
function Withheld() {
  const scenario = withheld.value;
  if (scenario === null) return null;
  return (
    <p class="problem">
      <output>The address names another scenario. It is not shown, since this one was changed here.</output>{" "}
      <button type="button" onClick={() => void show(scenario)}>
        Show it instead
      </button>
    </p>
  );
}

/** Scenarios are edited here, run in this browser, and compared. */
export function Lab() {
  useEffect(() => void begin(), []);
  const said = useSignal("");
  const say = (what: string) => {
    said.value = what;
    setTimeout(() => {
      said.value = "";
    }, 5000);
  };
  const isRunning = progress.value !== null;
  const choose = (event: Event) => void use((event.currentTarget as HTMLSelectElement).value);
  return (
    <div class={`lab${runs.value.length > 1 ? " several" : ""}`}>
      <section class="scenario" aria-label="Scenario">
        <div class="tools">
          <label>
            Scenario{" "}
            <select value={name.value} onChange={choose}>
              <option value="" disabled>
                edited
              </option>
              <optgroup label="Examples">
                {examples.value.map(({ name, title }) => (
                  <option key={name} value={name} title={title}>
                    {name}
                  </option>
                ))}
              </optgroup>
              <optgroup label="Studies">
                {[...SCENARIOS.keys()].map((name) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </optgroup>
            </select>
          </label>
          {isRunning ? (
            <button type="button" onClick={stop}>
              Stop
            </button>
          ) : (
            <button
              type="button"
              class="primary"
              disabled={checked.value === null}
              onClick={() => void run()}
            >
              Run
            </button>
          )}
          <button
            type="button"
            title="Puts the scenario into the address of this page, and copies it"
            onClick={() => void link().then(say)}
          >
            Link
          </button>
          <output class="quiet">{said.value}</output>
          {isRunning && <progress aria-label="Simulating" max={1} value={progress.value ?? 0} />}
        </div>
        <Withheld />
        <Limiters />
        <Editor />
        <State />
      </section>
      <section class="runs" aria-label="Runs">
        {live.value && <LiveView live={live.value} />}
        {runs.value.length === 0 && !isRunning && (
          <p class="quiet">A run shows its results here. Up to four runs are kept beside each other.</p>
        )}
        {runs.value.map((one) => (
          <RunView key={one.number} run={one} />
        ))}
      </section>
    </div>
  );
}
