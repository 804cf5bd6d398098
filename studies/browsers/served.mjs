// dash.js and hls.js in Chromium play a video that `tidegate serve` paces, in a shell. README.md says what is measured.
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ladder, QUALITIES, SEGMENT } from "./ladder.mjs";
import { open, programInOwnNetwork, SERVER, target } from "./place.mjs";
import { scenario } from "./scenario.mjs";
import { view } from "./shell.mjs";

const { values } = parseArgs({ options: { smoke: { type: "boolean" }, update: { type: "boolean" } } });
const length = values.smoke ? 24 : 80;
/** Seconds of video that the server sends at full speed first. */
const START_UP = 8;
/** Lines: faster than the server sends, and one that becomes so when the start-up is over. */
const LINES = {
  fast: 'kind = "link"\nrate = "20mbit"\nqueue = "250kB"',
  slow: 'kind = "link"\nrates = [["0s", "1.2mbit"], ["25s", "20mbit"]]\nqueue = "50kB"',
};
const PLAYERS = { "dash.js": "video.mpd", "hls.js": "master.m3u8" };
const WAYS = values.smoke ? ["trickle"] : ["none", "trickle", "application-64k"];
/** What the server sends the best quality at, and any other one at least, over its rate and that of the next better one. */
const [PERCENT, UPWARDS] = [125, 200];

const kept = join(target, values.smoke ? "browsers-smoke" : "browsers");
mkdirSync(kept, { recursive: true });
const program = programInOwnNetwork("served");
const folder = mkdtempSync(join(tmpdir(), "tidegate-served-"));
const video = ladder(kept, length);
const place = await open(folder, { downloads: 0 });

/** The rate at which the server should send a segment of this quality, in kbit/s. */
function paced(rate) {
  const rates = QUALITIES.map(([, kbit]) => kbit);
  // Manifests of HLS state a little more than the encoder was told.
  const next = rates.find((other) => other * 1e3 > 1.05 * rate);
  return next ? (UPWARDS / 100) * next : (PERCENT / 100) * rates.at(-1);
}

/** What a viewer saw, and how fast the segments after the start-up came, over the rate that they should be sent at. */
async function seen(player, line, port) {
  const text = scenario({ element: LINES[line], traffic: '"bulk"', cc: "cubic", seconds: length, start: 0 });
  const manifest = `https://${SERVER}:${port}/${PLAYERS[player]}`;
  const task = { served: { player, manifest, session: randomUUID(), limit: 2 * length } };
  const { served } = (await view(program, folder, text, task)).seen;
  if (served.error) throw new Error(`${player}: ${served.error}`);
  const { segments } = served;
  const stalled = served.end - served.join - served.played;
  const rates = segments.map(({ rate }) => rate / 1e3);
  // A player that changes its quality may fetch what it has once more, and a response may begin in the start-up.
  const after = segments.slice(START_UP / SEGMENT + 2);
  const over = after.map(({ rate, bytes, first, end }) => (8 * bytes) / 1e3 / (end - first) / paced(rate));
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  return { join: served.join, stalled, mean, last: rates.at(-1), played: served.played, over };
}

const lines = [];
function print(cells) {
  const WIDTHS = [8, 6, 17, 9, 12, 14, 14, 16];
  const line = cells.map((cell, column) => String(cell).padStart(WIDTHS[column])).join("");
  console.log(line);
  lines.push(line);
}
try {
  print(["player", "line", "way", "join, s", "stalled, s", "mean, kbit/s", "last, kbit/s", "over its rate"]);
  for (const [number, way] of WAYS.entries()) {
    const port = 8443 + number;
    const at = ["--listen", `${SERVER}:${port}`, "--cert", `${folder}/cert.pem`, "--key", `${folder}/key.pem`];
    const pacing = ["--way", way, "--start-up", `${START_UP}s`, "--percent", String(PERCENT)];
    place.start(program, "serve", video, "--quiet", "--no-log", "--cors", "*", ...at, ...pacing);
    await new Promise((done) => setTimeout(done, 1000));
    for (const line of values.smoke ? ["fast"] : ["fast", "slow"]) {
      for (const player of Object.keys(PLAYERS)) {
        const { join: joined, stalled, mean, last, played, over } = await seen(player, line, port);
        const range = `${Math.min(...over).toFixed(2)} to ${Math.max(...over).toFixed(2)}`;
        const times = [joined, Math.max(0, stalled)].map((time) => time.toFixed(2));
        print([player, line, way, ...times, mean.toFixed(0), last.toFixed(0), range]);
        if (!values.smoke) continue;
        if (played < length - 0.5) throw new Error(`${player} played ${played} s of ${length} s`);
        if (last < 0.95 * QUALITIES.at(-1)[1]) throw new Error(`${player} stayed at ${last} kbit/s`);
        // Trickle's window has a headroom of 1.2, and the time of a segment has an error.
        if (over.some((one) => one > 1.35)) throw new Error(`${player} was sent segments at ${over} of their rates`);
      }
    }
  }
} finally {
  place.close();
  rmSync(folder, { recursive: true, force: true });
}
if (values.update) writeFileSync(join(import.meta.dirname, "measured-served.txt"), `${lines.join("\n")}\n`);
