import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Live, PanelInfo } from "../engine/types";
import { live as latest } from "../lab";
import { time } from "../units";
import { Panel } from "./panel";

/** What makes a panel another one: that other curves are in it. */
const curves = (info: PanelInfo) => `${info.key} ${info.curves.map(({ key }) => key).join(" ")}`;

function LivePanel({ info, seconds }: { info: PanelInfo; seconds: number }) {
  const range = useSignal({ from: 0, to: seconds });
  const which = curves(info);
  const own = useMemo(() => info, [which]);
  const numbers = (key: string) => {
    const index =
      latest.value?.panels.findIndex((panel) => panel.key === key && curves(panel) === which) ?? -1;
    const found = latest.value?.numbers[index];
    return found ? Promise.resolve(found) : Promise.reject(new Error("the simulation ended"));
  };
  useEffect(() => {
    range.value = { from: 0, to: seconds };
  }, [seconds]);
  return (
    <Panel
      info={own}
      range={range}
      whole={seconds}
      numbers={numbers}
      hover={() => {}}
      select={() => {}}
      edition={latest}
    />
  );
}

/** A simulation while it runs. */
export function LiveView({ live }: { live: Live }) {
  return (
    <article class="live" aria-label="The simulation that runs">
      <p class="quiet">
        {live.parameters ? `${live.parameters}, ` : ""}seed {live.seed}: {time(live.now_s)} of{" "}
        {time(live.seconds)}
      </p>
      {live.panels.map((info) => (
        <LivePanel key={curves(info)} info={info} seconds={live.seconds} />
      ))}
    </article>
  );
}
