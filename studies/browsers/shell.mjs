// Runs the viewer in a shell, and reads what passed.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SERVER } from "./place.mjs";

/** Shows what the viewer saw behind the elements of a scenario. Captures and tables go to `results`. */
export async function view(program, folder, text, task) {
  const [file, order, results] = ["case.toml", "task.json", "results"].map((name) => join(folder, name));
  writeFileSync(file, text);
  writeFileSync(order, JSON.stringify({ server: SERVER, ...task }));
  const command = ["node", join(import.meta.dirname, "viewer.mjs"), order];
  const words = ["shell", "--quiet", file, "-o", results, "--snaplen", "64", "--", ...command];
  const shell = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  shell.stdout.on("data", (text) => {
    said += text;
  });
  const code = await new Promise((done) => shell.on("exit", done));
  if (code !== 0) throw new Error(`${file}: the viewer in the shell ended with ${code}`);
  return { seen: JSON.parse(said), capture: join(results, "inside.pcap") };
}

/** The packets of IPv4 and TCP in a capture: their times, ports and lengths, and whether they open a connection. */
function* packets(capture) {
  const data = readFileSync(capture);
  // The file's times are nanoseconds or microseconds, by its magic number.
  const fraction = data.readUInt32LE(0) === 0xa1b23c4d ? 1e9 : 1e6;
  for (let at = 24; at + 16 <= data.length; ) {
    const time = data.readUInt32LE(at) + data.readUInt32LE(at + 4) / fraction;
    const [kept, bytes] = [data.readUInt32LE(at + 8), data.readUInt32LE(at + 12)];
    const packet = at + 16;
    at = packet + kept;
    if (data[packet] >> 4 !== 4 || data[packet + 9] !== 6) continue;
    const tcp = packet + 4 * (data[packet] & 15);
    const opens = (data[tcp + 13] & 18) === 2;
    yield { time, bytes, opens, from: data.readUInt16BE(tcp), to: data.readUInt16BE(tcp + 2) };
  }
}

/** Bytes of IP packets from two ports in each second from a time on, as they came out of the elements. */
export function arrivals(capture, epoch, ports) {
  const seconds = [];
  for (const { time, bytes, from } of packets(capture)) {
    const [second, which] = [Math.floor(time - epoch), ports.indexOf(from)];
    if (second < 0 || which < 0) continue;
    while (seconds.length <= second) seconds.push(ports.map(() => 0));
    seconds[second][which] += bytes;
  }
  return seconds;
}

/** Seconds from the first full packet of the download to the first connection to the other port. Connections of an earlier shell may still be
 * repeating packets when this one begins. */
export function lead(capture, [first, download]) {
  let asked = false;
  let began;
  for (const { time, bytes, opens, from, to } of packets(capture)) {
    if (to === download && opens) asked = true;
    if (asked && from === download && bytes > 1000) began ??= time;
    if (to === first && opens) return time - began;
  }
}

/** Jain's index of the two, as a mean over the seconds in which the player waits for a segment all the time. */
export function fairness(seconds, segments) {
  let [sum, count] = [0, 0];
  for (const [second, [one, other]] of seconds.entries()) {
    const waits = segments.some(({ start, end }) => start <= second && second + 1 <= end);
    if (!waits || one + other === 0) continue;
    sum += (one + other) ** 2 / (2 * (one ** 2 + other ** 2));
    count += 1;
  }
  return count > 0 ? sum / count : Number.NaN;
}
