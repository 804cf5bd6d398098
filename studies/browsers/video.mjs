// Adaptive video beside a download: figures 7a and 9 of [BCPQP], in a browser and in the lab.
import { join } from "node:path";
import { beginning, QUALITIES, SEGMENT, sizes } from "./ladder.mjs";
import { FREE, limiters, scenario, simulate } from "./scenario.mjs";
import { arrivals, fairness, view } from "./shell.mjs";
import { percentile } from "./table.mjs";

/** Video in the buffer up to which the player asks for more, and the quality of the first segment. */
const [BUFFER, FIRST] = [30, 2];
/** The download has its rate before the video begins. */
const LEAD = 4;
const SEEDS = 10;
const FREE_RUNS = 3;
/** Seconds that a download lasts longer than all that happens beside it; it is ended then. */
const MARGIN = 120;
/** Bytes of a TLS 1.3 handshake with the study's certificate. */
const HANDSHAKE = 1500;

/** The player's settings in the words of the lab. Segments have the sizes of those in the files. */
function traffic({ rule, length, work, held, before, relative }) {
  const ladder = QUALITIES.map(([, rate]) => `"${rate}kbit"`).join(", ");
  const preface = before.map((size) => `"${size}B"`).join(", ");
  // dash.js appends whole segments, and Chromium plays as soon as there is one.
  return `{ kind = "adaptive", rule = "${rule}", ladder = [${ladder}], segment = "${SEGMENT}s", length = "${length}s", initial = "${QUALITIES[FIRST][1]}kbit", segment-sizes = [${relative.join(", ")}], initial-segments = ${held}, buffer = "${BUFFER}s", join = "${SEGMENT}s", rejoin = "${SEGMENT}s", preface = [${preface}], work = "${work}ms" }`;
}

/** What the browser saw, in the terms of the lab's rows. */
function seen(video, capture) {
  const rates = video.segments.map(({ rate }) => rate);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const stalled = video.end - video.join - video.played;
  return {
    join: video.join,
    // The player notices the end some milliseconds late.
    ratio: Math.max(0, stalled < 0.1 ? 0 : stalled / video.played),
    quality: mean(rates) / 1e3,
    rates,
    switches: rates.filter((rate, index) => index > 0 && rate !== rates[index - 1]).length,
    fairness: fairness(arrivals(capture, video.epoch, [443, 5201]), video.segments),
  };
}

/** The same of the lab: means over seeds. */
function modelled(program, folder, text) {
  const file = join(folder, "lab.toml");
  const rows = (by) => simulate(program, file, text, by, SEEDS);
  const flows = rows("flow").filter(({ flow }) => flow === "first");
  const mean = (key) => flows.reduce((sum, row) => sum + row[key], 0) / flows.length;
  const [windows, transfers] = [rows("window"), rows("transfer")];
  const shares = flows.map(({ seed, start_s }) => {
    const seconds = [];
    for (const row of windows) {
      const which = ["first", "download"].indexOf(row.flow);
      // Windows begin with the simulation: up to half a second before or after those of the video.
      const second = Math.round(row.start_s - start_s);
      if (row.seed !== seed || which < 0 || second < 0) continue;
      seconds[second] ??= [0, 0];
      seconds[second][which] = row.bytes;
    }
    const fetched = transfers.filter((row) => row.seed === seed && row.flow === "first");
    const segments = fetched.map((row) => ({
      start: row.start_s - start_s,
      end: row.start_s - start_s + row.duration_s,
    }));
    return fairness(seconds, segments);
  });
  return {
    join: mean("join_s"),
    ratio: mean("rebuffering_ratio"),
    quality: mean("quality_bps") / 1e3,
    switches: mean("quality_switches"),
    fairness: shares.reduce((sum, share) => sum + share, 0) / shares.length,
  };
}

/** Plays videos behind each limiter; `each` is given the result of each case. */
export async function videos(
  { program, folder, keep, place, content, length, senders, rules, only, runs },
  each,
) {
  const before = [HANDSHAKE, ...beginning(content.video)];
  const relative = sizes(content.video, length);
  const limit = 2 * length + 30;
  const play = async (element, cc, rule, download) => {
    place.congestion(cc);
    const settings = { rule, buffer: BUFFER, initial: QUALITIES[FIRST][1], limit };
    const task = { video: settings };
    if (download) task.download = { cc: download, seconds: limit + MARGIN };
    const text = scenario({
      element,
      traffic: '{ kind = "bulk" }',
      cc,
      download,
      seconds: 10,
      start: 0,
    });
    const { seen: result, capture } = await view(program, folder, text, task);
    if (result.video.error) throw new Error(`dash.js: ${result.video.error}`);
    return seen(result.video, capture);
  };
  const played = (element, cc, rule, download, name) =>
    keep(`video-${length}-${rule}-${cc}-${name}`, () => play(element, cc, rule, download));
  const model = (element, cc, rule, download, { work, held }) =>
    modelled(
      program,
      folder,
      scenario({
        element,
        traffic: traffic({ rule, length, work, held, before, relative }),
        cc,
        download,
        seconds: limit + LEAD,
        // Runs differ by where the download is when the video begins.
        start: `${LEAD}s..${LEAD + 2}`,
      }),
    );
  for (const rule of rules) {
    // What the browser needs until the first picture, and for how many segments dash.js keeps the first quality, are measured where the
    // network takes nearly no time.
    const free = [];
    for (let run = 0; run < FREE_RUNS; run += 1)
      free.push(await played(FREE, "cubic", rule, null, `free-${run}`));
    const [{ rates }] = free;
    const held = Math.max(
      1,
      rates.findIndex((rate) => rate !== rates[0]),
    );
    const idle = model(FREE, "cubic", rule, null, { work: 0, held });
    const own = {
      held,
      work: Math.max(
        0,
        Math.round(
          1e3 *
            (percentile(
              free.map(({ join }) => join),
              50,
            ) -
              idle.join),
        ),
      ),
    };
    each({ rule, ...own });
    for (const cc of senders) {
      for (const [name, element] of Object.entries(limiters(1))) {
        if (only && !only.includes(name)) continue;
        const browser = [];
        for (let run = 0; run < runs; run += 1)
          browser.push(await played(element, cc, rule, "cubic", `${name}-${run}`));
        each({ rule, cc, limiter: name, browser, lab: model(element, cc, rule, "cubic", own) });
      }
    }
  }
}
