import { status } from "../gate";
import { value } from "../units";
import { Heads } from "./heads";

const HEADS = ["node", "below", "down", "share of rates, down", "up", "share of rates, up"];

/** The nodes of the network that subscribers share, and how full they are. */
export function Nodes() {
  const nodes = status.value?.nodes ?? [];
  if (nodes.length === 0) return null;
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">Shared capacities</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Shared capacities">
        <table class="nodes">
          <Heads titles={HEADS} />
          <tbody>
            {nodes.map(({ name, parent, down, up }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{parent ?? "-"}</td>
                {[down, up].map(({ rate, capacity, share, full }, way) => [
                  <td key={`${way} rate`}>
                    {value(rate, "bit/s")} of {value(capacity, "bit/s")}
                  </td>,
                  <td key={`${way} share`}>
                    {value(100 * share, "%")}
                    {full ? " (full)" : ""}
                  </td>,
                ])}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
