import { flows, type Line } from "../gate";
import { plural, time, value } from "../units";
import { Heads } from "./heads";

const trip = (ms: number | null) => (ms === null ? "-" : time(ms / 1e3));
const percent = (share: number | null) => value(share === null ? null : 100 * share, "%");

/** What a line feels, in sentences. */
export function felt({ score, access, core, down, up }: Line): string {
  const trips = ({ p50_ms, p95_ms }: Line["core"]) => `${trip(p50_ms)} (95 %: ${trip(p95_ms)})`;
  const said = [
    `Round trips: ${trips(access)} on the access side, ${trips(core)} on the core side.`,
    `Sent again: ${percent(down.again_share)} down, ${percent(up.again_share)} up.`,
  ];
  if (score !== null) said.push(`Score ${score.toFixed(0)} of 100.`);
  return said.join(" ");
}

const HEADS = [
  "flow",
  "down",
  "up",
  "exceeds the limit",
  "round trip, access",
  "round trip, core",
  "sent again",
  "queue down",
];

/** The watched flows of the subscriber. */
export function Flows() {
  if (!flows.value) return null;
  const { matched, shown } = flows.value;
  const many =
    shown.length < matched
      ? `${shown.length} of ${matched.toLocaleString("en")} flows`
      : plural(matched, "flow");
  return (
    <section aria-labelledby="flows">
      <h3 id="flows">{many} with packets in the last minute</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label="Flows">
        <table class="flows">
          <Heads titles={HEADS} />
          <tbody>
            {shown.map(({ name, flow, down, up, excess }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value(down, "bit/s")}</td>
                <td>{value(up, "bit/s")}</td>
                <td>{value(excess, "bit/s")}</td>
                <td>{trip(flow.down.trip_ms)}</td>
                <td>{trip(flow.up.trip_ms)}</td>
                <td>{plural(flow.down.again + flow.up.again, "segment")}</td>
                <td>{flow.down.queue}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
