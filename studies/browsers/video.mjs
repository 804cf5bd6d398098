// Adaptive video beside a download: figures 7a and 9 of [BCPQP], in a browser and in the lab.
import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beginning, QUALITIES, SEGMENT, sizes } from "./ladder.mjs";
import { FREE, limiters, scenario, simulate } from "./scenario.mjs";
import { arrivals, fairness, lead, view } from "./shell.mjs";
import { percentile } from "./table.mjs";

/** Video in the buffer up to which the player asks for more, and the quality of the first segment. */
const [BUFFER, FIRST] = [30, 2];
/** How many seconds after the download a video begins, at the earliest, and how long the download's cycle is behind the single queue: it loses
 * packets twice in that time. What a viewer sees depends on where the download is in it, so runs are spread over it. */
const [LEAD, CYCLE] = [3, 8.5];
/** A video that begins this many seconds later than it was asked for is played once more, so many times in all. */
const [LATE, TRIES] = [2, 3];
/** Simulations for each run of the browser, which begin up to this many seconds before or after it. */
const [SEEDS, AROUND] = [12, 0.1];
/** Seconds from the connection of the lab's download until its first packet has arrived. */
const OPENING = 0.045;
const FREE_RUNS = 3;
/** Seconds that a download lasts longer than all that happens beside it; it is ended then. */
const MARGIN = 120;
/** Where the server sends from: the video, and the download. */
const PORTS = [443, 5201];
/** Bytes that nginx sends in a TLS 1.3 handshake with the study's certificate, HTTP/2's settings included; what it adds to each answer, headers
 * mostly; and a segment's first part, which dash.js leaves out of its throughput: a record of TLS. All as in a capture. */
const [HANDSHAKE, HEADERS, RECORD] = [943, 180, 16221];
/** `weightDownloadTimeMultiplicationFactor` of dash.js 5, for a second. */
const WEIGHT = 1.5;

/** The lab's names of dash.js's rules. */
const NAMES = { throughput: "throughput", bola: "bola-5" };

/** The player's settings in the words of the lab. Segments have the sizes of those in the files. */
function traffic({ rule, length, work, held, before, relative }) {
  const ladder = QUALITIES.map(([, rate]) => `"${rate}kbit"`).join(", ");
  const preface = before.map((size) => `"${size}B"`).join(", ");
  // dash.js appends whole segments, and Chromium plays as soon as there is one.
  return `{ kind = "adaptive", rule = "${NAMES[rule]}", ladder = [${ladder}], segment = "${SEGMENT}s", length = "${length}s", initial = "${QUALITIES[FIRST][1]}kbit", segment-sizes = [${relative.join(", ")}], initial-segments = ${held}, buffer = "${BUFFER}s", join = "${SEGMENT}s", rejoin = "${SEGMENT}s", preface = [${preface}], unmeasured = "${RECORD}B", weight = ${WEIGHT}, work = "${work}ms" }`;
}

/** When run after run begins after the download. Each falls into the largest gap that is left. */
function leadOf(run) {
  return LEAD + (((run * (Math.sqrt(5) - 1)) / 2) % 1) * CYCLE;
}

/** What the browser saw, in the terms of the lab's rows. */
function seen(video, capture) {
  const rates = video.segments.map(({ rate }) => rate);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const stalled = video.end - video.join - video.played;
  const seconds = arrivals(capture, video.epoch, PORTS);
  return {
    join: video.join,
    // The player notices the end some milliseconds late.
    ratio: Math.max(0, stalled < 0.1 ? 0 : stalled / video.played),
    quality: mean(rates) / 1e3,
    rates,
    segments: video.segments,
    levels: video.levels,
    seconds,
    end: video.end,
    switches: rates.filter((rate, index) => index > 0 && rate !== rates[index - 1]).length,
    fairness: fairness(seconds, video.segments),
    lead: lead(capture, PORTS),
  };
}

/** The same of the lab, of each seed. */
function modelled(program, folder, text) {
  const file = join(folder, "lab.toml");
  const rows = (by) => simulate(program, file, text, by, SEEDS);
  const flows = rows("flow").filter(({ flow }) => flow === "first");
  const [windows, transfers] = [rows("window"), rows("transfer")];
  return flows.map((flow) => {
    const { seed, start_s } = flow;
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
    return {
      join: flow.join_s,
      ratio: flow.rebuffering_ratio,
      quality: flow.quality_bps / 1e3,
      switches: flow.quality_switches,
      fairness: fairness(seconds, segments),
    };
  });
}

/** Plays videos behind each limiter; `each` is given the result of each case. */
export async function videos(
  { program, folder, keep, has, kept, place, content, length, senders, rules, only, runs },
  each,
) {
  const before = [HANDSHAKE, ...beginning(content.video).map((size) => size + HEADERS)];
  const relative = sizes(content.video, length);
  const limit = 2 * length + 30;
  const play = async (element, cc, rule, download, name, run = 0, tries = TRIES) => {
    place.congestion(cc);
    const settings = { rule, buffer: BUFFER, initial: QUALITIES[FIRST][1], limit };
    const task = { video: settings };
    if (download) task.download = { cc: download, seconds: limit + MARGIN, lead: leadOf(run) };
    const text = scenario({
      element,
      traffic: '{ kind = "bulk" }',
      cc,
      download,
      seconds: 10,
      start: 0,
    });
    const { seen: result, capture } = await view(program, folder, text, task);
    const late = download ? lead(capture, PORTS) - task.download.lead : 0;
    if (late > LATE && tries > 1) {
      console.error(
        `${name}: the video began ${late.toFixed(1)} s too late, since the machine was busy: once more`,
      );
      await place.renew();
      return play(element, cc, rule, download, name, run, tries - 1);
    }
    // So that a run can be looked at afterwards.
    for (const end of ["outside", "inside"])
      copyFileSync(join(dirname(capture), `${end}.pcap`), join(kept, "seen", `${name}-${end}.pcap`));
    if (result.video.error) throw new Error(`dash.js: ${result.video.error}`);
    return seen(result.video, capture);
  };
  const label = (rule, cc, name) => `video-${length}-${rule}-${cc}-${name}`;
  const played = (element, cc, rule, download, name, run) =>
    keep(label(rule, cc, name), () =>
      play(element, cc, rule, download, label(rule, cc, name).replaceAll(" ", "-"), run),
    );
  const model = (element, cc, rule, download, { work, held }, lead = LEAD) =>
    modelled(
      program,
      folder,
      scenario({
        element,
        traffic: traffic({ rule, length, work, held, before, relative }),
        cc,
        download,
        seconds: Math.ceil(limit + LEAD + CYCLE),
        start: `${(lead + OPENING - AROUND).toFixed(3)}s..${(lead + OPENING + AROUND).toFixed(3)}`,
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
              percentile(
                idle.map(({ join }) => join),
                50,
              )),
        ),
      ),
    };
    each({ rule, ...own });
    for (const cc of senders) {
      for (const [name, element] of Object.entries(limiters(1))) {
        if (only && !only.includes(name)) continue;
        const browser = [];
        for (let run = 0; run < runs || has(label(rule, cc, `${name}-${run}`)); run += 1)
          browser.push(await played(element, cc, rule, "cubic", `${name}-${run}`, run));
        // The lab's videos begin when those of the browser did.
        const lab = browser.flatMap(({ lead }) => model(element, cc, rule, "cubic", own, lead));
        each({ rule, cc, limiter: name, browser, lab });
      }
    }
  }
}
