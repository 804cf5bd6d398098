import { busy, type Capture, captures } from "../state";
import { plural, value } from "../units";

function State({ capture }: { capture: Capture }) {
  const { report, error, size, read } = capture;
  if (error) return null;
  if (!report) {
    return <progress aria-label={`Reading ${capture.name}`} max={Math.max(size, 1)} value={read} />;
  }
  return (
    <span class="quiet">
      {plural(report.packets, "packet")}, {plural(report.flows, "flow")},{" "}
      {plural(report.transfers, "transfer")}
    </span>
  );
}

/** The captures that are open, and what is wrong with them, in the words of the command line. */
export function Captures() {
  return (
    <section class="captures" aria-label="Captures" aria-busy={busy.value}>
      <ul>
        {captures.value.map((capture) => (
          <li key={capture.number}>
            <b>{capture.name}</b> <span class="quiet">{value(capture.size, "B")}</span>{" "}
            <State capture={capture} />
            {[...(capture.report?.problems ?? []), ...(capture.error ? [capture.error] : [])].map(
              (problem) => (
                <p key={problem} class="problem" role="status">
                  {problem}
                </p>
              ),
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
