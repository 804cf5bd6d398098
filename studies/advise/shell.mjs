// Whether advice on a limit does what it says to the kernel's TCP: downloads in shells behind the limit as it is, and behind the advised one.
// Each download is in a second shell within that of the limit, which has its round trip. As root; README.md says what is measured.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { open, programInOwnNetwork, SERVER } from "../browsers/place.mjs";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "3" }, only: { type: "string" }, update: { type: "boolean" } },
});
const program = programInOwnNetwork("advise");

/** The ten limits of limits.rs, with the link before each: ten times the limit's rate, where real time can space its packets. The last value is the
 * number of users where there are several. */
const LIMITS = [
  ["Flach16, table 5", "police cir 500k bc 8000", "5mbit", "20ms..100ms", 1, "cubic"],
  // A bucket of 32 s.
  ["Flach16, table 6", "police cir 500k bc 2m", "5mbit", "20ms..100ms", 2, "cubic"],
  ["Flach16, figure 13", "police cir 1.5m bc 8000", "15mbit", "20ms..100ms", 2, "cubic"],
  ["policer or shaper", "police 20000000", "200mbit", "10ms..40ms", 4, "reno"],
  ["case study", "police cir 300m bc 50000", undefined, "70ms..76ms", 1, "cubic"],
  [
    "IOS",
    "police cir 10m bc 32000 conform-action transmit exceed-action drop",
    "100mbit",
    "20ms..100ms",
    4,
    "cubic,bbr",
  ],
  [
    "Junos",
    "if-exceeding { bandwidth-limit 50m; burst-size-limit 15k; } then discard;",
    undefined,
    "10ms..60ms",
    4,
    "cubic",
  ],
  [
    "tc police",
    "tc filter add dev eth0 ingress matchall action police rate 100mbit burst 128k conform-exceed drop",
    undefined,
    "5ms..40ms",
    6,
    "cubic,bbr,reno",
  ],
  ["nftables", "limit rate over 1250 kbytes/second burst 32 kbytes drop", "100mbit", "20ms..80ms", 6, "cubic", 4],
  [
    "tc tbf",
    "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 400ms",
    "200mbit",
    "20ms..100ms",
    4,
    "cubic,bbr",
  ],
];
const WITHIN = 0.2;

/** The words of a shell for a limit of an advice with the link before it, and for the users who download. */
function words(limit, link, users) {
  const { kind, rate_bps, overhead_bytes, burst_bytes, queue_bytes } = limit;
  const keys = link ? ["link", link, "queue", '"10000 packets"'] : [];
  keys.push(kind, `${rate_bps}bit`, "overhead", `${overhead_bytes}B`);
  if (burst_bytes !== undefined) keys.push("burst", `${burst_bytes}B`);
  if (queue_bytes !== undefined) keys.push("queue", `${queue_bytes}B`);
  if (kind === "shaper") keys.push("policy", '"queue"');
  if (kind === "bc-pqp") keys.push(...policy(users));
  return keys;
}

/** As advise simulates it: users share evenly, and the flows of each. All users of a shell have one address, so their ports tell them apart. */
function policy(users) {
  const all = [...new Set(users)];
  if (all.length === 1) return ["policy", "{ fair = 16 }"];
  const rules = users.map(
    (user, flow) => `{ class = ${all.indexOf(user)}, remote-ports = "${5201 + flow}" }`,
  );
  return [
    "policy",
    `{ weighted = [${all.map(() => "[1, { fair = 16 }]").join(", ")}] }`,
    "rule",
    `[${rules.join(", ")}]`,
  ];
}

/** Draws between 0 and 1, the same ones each time. */
function draws(name) {
  let count = 0;
  return () => {
    count += 1;
    return createHash("sha256").update(`${name} ${count}`).digest().readUInt32LE() / 2 ** 32;
  };
}

/** The runs' round trips of a download in ms. As in the prediction, all of the range is drawn from evenly, and whatever the other downloads have. */
function roundTrips([low, high], number) {
  const draw = draws(`download ${number}`);
  const parts = Array.from({ length: Number(values.runs) }, (_, part) => part);
  for (let last = parts.length - 1; last > 0; last -= 1) {
    const other = Math.floor(draw() * (last + 1));
    [parts[last], parts[other]] = [parts[other], parts[last]];
  }
  return parts.map((part) => 1e3 * (low + ((high - low) * (part + draw())) / parts.length));
}

/** Downloads behind a limit: the slowest one's share of an equal part of the rate, or that of the slowest of several users, and the share of data
 * packets that were dropped. */
async function measure(folder, limit, link, downloads, run, seconds) {
  await place.renew();
  const draw = draws(`run ${run}`);
  const commands = downloads.map(({ congestion_control, rtt_s }, index) => {
    const delay = roundTrips(rtt_s, index)[run] / 2;
    // As in the simulations, each begins within a second. So that all are there to the end, they go on for longer than is counted.
    const start = `sleep ${draw().toFixed(3)}`;
    const iperf = `iperf3 -c ${SERVER} -R -C ${congestion_control} -p ${5201 + index} -t ${seconds + 1} -J`;
    // With the noise of the simulations.
    const path = `delay ${delay.toFixed(2)}ms down delay 0ms jitter 0.5ms`;
    return `(${start}; ${program} shell --quiet ${path} -- ${iperf} >${folder}/${index}.json) &`;
  });
  const users = downloads.map(({ user }) => user);
  const script = `${commands.join("\n")}\nwait`;
  const results = join(folder, "results");
  const shell = ["shell", "--quiet", "-o", results, "--snaplen", "64", ...words(limit, link, users)];
  const process = spawn(program, [...shell, "--", "sh", "-c", script], { stdio: "inherit" });
  const code = await new Promise((done) => process.on("exit", done));
  if (code !== 0) throw new Error(`the shell ended with ${code}`);
  for (const index of downloads.keys()) {
    const report = JSON.parse(readFileSync(join(folder, `${index}.json`), "utf8"));
    if (report.error) throw new Error(`iperf3: ${report.error}`);
  }
  const [sent, arrived] = ["outside", "inside"].map((end) =>
    segments(join(results, `${end}.pcap`), downloads.length, seconds),
  );
  const rates = arrived.bytes.map((bytes) => (8 * bytes) / seconds);
  rmSync(results, { recursive: true });
  const several = users.some((user) => user !== users[0]);
  const each = several
    ? users.map((user) => rates.filter((_, flow) => users[flow] === user))
    : rates.map((rate) => [rate]);
  const sums = each.map((rates) => rates.reduce((sum, rate) => sum + rate));
  const equal = limit.rate_bps / (several ? new Set(users).size : rates.length);
  return { slowest: Math.min(...sums) / equal, loss: 1 - arrived.packets / sent.packets };
}

/** Data packets from the servers in a capture, and the bytes of payload that each sent in its first seconds. */
function segments(capture, servers, seconds) {
  const data = readFileSync(capture);
  const bytes = Array(servers).fill(0);
  let [packets, first] = [0, undefined];
  for (let at = 24; at + 16 <= data.length; ) {
    const [time, part, kept, length] = [0, 4, 8, 12].map((word) => data.readUInt32LE(at + word));
    const packet = at + 16;
    at = packet + kept;
    if (data[packet] >> 4 !== 4 || data[packet + 9] !== 6) continue;
    const tcp = packet + 4 * (data[packet] & 15);
    const number = data.readUInt16BE(tcp) - 5201;
    if (number < 0 || number >= servers || length <= 100) continue;
    packets += 1;
    const now = time + part / 1e9;
    first ??= now;
    if (now - first < seconds) bytes[number] += length - (tcp - packet) - 4 * (data[tcp + 12] >> 4);
  }
  return { packets, bytes };
}

const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
const folder = mkdtempSync(join(tmpdir(), "tidegate-advise-"));
const place = await open(folder, { downloads: 9 });
const lines = [];
const print = (line) => {
  console.log(line);
  lines.push(line);
};
let [claims, held] = [0, 0];
try {
  print(
    `${"limit".padEnd(20)}${"advised".padEnd(26)}${"measure".padEnd(14)}${"predicted".padStart(20)}${"in a shell".padStart(30)}`,
  );
  for (const [name, line, link, rtt, flows, cc, users = 1] of LIMITS) {
    if (values.only && !values.only.split(";").includes(name)) continue;
    const asked = [
      "advise",
      "--quiet",
      "--json",
      "--rtt",
      rtt,
      "--flows",
      String(flows),
      "--users",
      String(users),
    ];
    if (link) asked.push("--link", link);
    asked.push("--cc", cc, line);
    const advice = JSON.parse(execFileSync(program, asked, { encoding: "utf8", maxBuffer: 1 << 28 }));
    const [today, chosen] = [advice.options[0], advice.options[advice.chosen]];
    // As long as in the simulations: slow start's losses, and what a bucket holds at first, count for less in a longer download.
    const seconds = advice.simulated.duration_s;
    const found = { today: [], chosen: [] };
    for (let run = 0; run < Number(values.runs); run += 1) {
      found.today.push(await measure(folder, today.limit, link, today.downloads, run, seconds));
      found.chosen.push(await measure(folder, chosen.limit, link, chosen.downloads, run, seconds));
    }
    // Downloads measure the slowest one's share and losses.
    for (const { measure, today: now, then, known, improves_by: range } of advice.claims) {
      const key = { slowest_share: "slowest", loss_rate: "loss" }[measure];
      if (!key) continue;
      const better = Math.sign(then - now);
      const [before, after] = [found.today, found.chosen].map((runs) => mean(runs.map((one) => one[key])));
      const share = (after - before) / (then - now);
      const within = known
        ? Math.abs(share - 1) <= WITHIN
        : range[0] <= better * (after - before) && better * (after - before) <= range[1];
      claims += 1;
      held += within ? 1 : 0;
      const pair = (a, b) => `${(100 * a).toFixed(1)} to ${(100 * b).toFixed(1)}`;
      print(
        `${name.padEnd(20)}${chosen.words.padEnd(26)}${`${key}, %`.padEnd(14)}${`${known ? "" : "~"}${pair(now, then)}`.padStart(20)}${`${pair(before, after)} (${(100 * share).toFixed(0)} %${within ? "" : "!"})`.padStart(30)}`,
      );
    }
  }
  print(
    `${held} of ${claims} claims improved by what was predicted: within ${100 * WITHIN} %, or within the range of those that are marked ~`,
  );
} finally {
  place.close();
  rmSync(folder, { recursive: true, force: true });
}
if (values.update) writeFileSync(join(import.meta.dirname, "measured-shell.txt"), `${lines.join("\n")}\n`);
