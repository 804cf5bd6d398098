// What shell and lab have in common: a scenario file. `tidegate shell` takes its elements, `tidegate lab run` runs all of it.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

/** Of all packets, before and after the limiter together. */
const RTT = "30ms";
/** The kernel merges packets that arrive this close together: behind the policer, half of the acknowledgements in the captures answer three
 * segments or more. */
const MERGED = "50us";
/** Ports of the server: what a user looks at, and the download. */
const [FIRST, DOWNLOAD] = [443, 5201];

/** The four limiters of [BCPQP §6.4], 3 Mbit/s. `weight` is the share of video or pages, where the limiter has a policy. */
export function limiters(weight) {
  const first = weight === 1 ? '"queue"' : "{ fair = 16 }";
  const policy = `policy = { weighted = [[${weight}, ${first}], [1, "queue"]] }
[[element.rule]]
class = 0
remote-ports = "${FIRST}"
[[element.rule]]
class = 1
remote-ports = "${DOWNLOAD}"`;
  const rate = 'rate = "3mbit"';
  return {
    policer: `kind = "policer"\n${rate}`,
    "single queue": `kind = "link"\n${rate}\nqueue = "75kB"`,
    "DRR shaper": `kind = "shaper"\n${rate}\nqueue = "75kB"\n${policy}`,
    "BC-PQP": `kind = "bc-pqp"\n${rate}\n${policy}`,
  };
}

/** A fast line, on which nothing but the delay is felt: what a browser itself needs is measured there. */
export const FREE = 'kind = "link"\nrate = "100mbit"\nqueue = "1MB"';

/** The text of a scenario: a flow with this traffic, and a download beside it if it has a congestion control. */
export function scenario({ element, traffic, cc, download, seconds, start }) {
  const flow = (name, port, cc, rest) => `
[[flow]]
name = "${name}"
rtt = "${RTT}"
port = ${port}
cc = "${cc}"
gro = "${MERGED}"
path = ["gate"]
${rest}`;
  return `title = "${element.match(/kind = "(.*?)"/)[1]}"
duration = "${seconds}s"
window = "1s"

[[element]]
name = "gate"
${element}
${flow("first", FIRST, cc, `start = "${start}s"\nslow-start-after-idle = false\ntraffic = ${traffic}\n`)}
${download ? flow("download", DOWNLOAD, download, "") : ""}`;
}

/** Rows of a scenario in the lab. */
export function simulate(program, file, text, by, seeds = 1) {
  writeFileSync(file, `${text}\n[sweep]\nseeds = ${seeds}\n`);
  const words = ["lab", "run", file, "--quiet", "--by", by, "--format", "json"];
  const options = { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 28 };
  return JSON.parse(execFileSync(program, words, options));
}
