// Video and web pages in Chromium behind four limiters, in shells, beside the lab's models of both. README.md says what is measured.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { figures } from "./figure.mjs";
import { ladder } from "./ladder.mjs";
import { open, programInOwnNetwork, target } from "./place.mjs";
import { madeSites, sites } from "./sites.mjs";
import { Table } from "./table.mjs";
import { videos } from "./video.mjs";
import { pages } from "./web.mjs";

const { values } = parseArgs({
  options: {
    smoke: { type: "boolean" },
    only: { type: "string" },
    update: { type: "boolean" },
    runs: { type: "string", default: "1" },
    again: { type: "boolean" },
    senders: { type: "string", default: "bbr,cubic,reno" },
    rules: { type: "string", default: "throughput,bola" },
    downloads: { type: "string", default: "cubic,bbr" },
    limiters: { type: "string" },
    help: { type: "boolean" },
  },
});
if (values.help) {
  console.log(`Usage: node main.mjs [--smoke] [--only video|web] [--runs N] [--update]

  --smoke   a minute: one limiter, one video, three made-up pages; fails if anything does not work
  --only    videos or web pages alone
  --runs    how often each video is played
  --senders, --rules, --downloads, --limiters  the cases, such as bbr,cubic or bola or policer,BC-PQP
  --again   take what the browser saw in an earlier run, where it is kept in target/browsers/seen, all its runs, and run the lab.
            With more --runs than before, only the others are played
  --update  write the tables into measured-video.txt and measured-web.txt, and the pictures of figure 9, beside this file

TIDEGATE_PROGRAM names the program; otherwise that of target/release is taken, or that of target/debug.`);
  process.exit(0);
}
const { smoke, update } = values;
const kept = join(target, smoke ? "browsers-smoke" : "browsers");
mkdirSync(join(kept, "seen"), { recursive: true });
const web = values.only === "video" ? undefined : smoke ? madeSites(kept) : sites(kept);
// From here on there is no way to Debian's packages.
const program = programInOwnNetwork("browsers");

const length = smoke ? 16 : 40;
const content = { video: "/nonexistent", sites: "/nonexistent" };
if (values.only !== "web") content.video = ladder(kept, length);
if (web) content.sites = web.served;
const folder = mkdtempSync(join(tmpdir(), "tidegate-browsers-"));
const place = await open(folder, content);
/** Where what the browser saw is kept, since it takes real time. */
const keptAt = (name) => join(kept, "seen", `${name.replaceAll(" ", "-")}.json`);
const has = (name) => values.again && existsSync(keptAt(name));
async function keep(name, make) {
  if (has(name)) return JSON.parse(readFileSync(keptAt(name), "utf8"));
  const seen = await make();
  writeFileSync(keptAt(name), JSON.stringify(seen));
  return seen;
}
const only = smoke ? ["BC-PQP"] : values.limiters?.split(",");
const common = { program, folder, keep, has, kept, place, content, only };
try {
  if (values.only !== "web") {
    const table = new Table("video");
    const senders = smoke ? ["bbr"] : values.senders.split(",");
    const rules = smoke ? ["throughput"] : values.rules.split(",");
    await videos({ ...common, length, senders, rules, runs: Number(values.runs) }, (row) => table.video(row));
    table.end(update);
    if (update) figures(table.rows);
  }
  if (web) {
    const table = new Table("web");
    const downloads = smoke ? ["cubic"] : values.downloads.split(",");
    await pages({ ...common, list: web.pages, downloads }, (row) => {
      if (smoke && row.failed) throw new Error(`${row.path}: ${row.failed}`);
      table.web(row);
    });
    table.end(update);
  }
} finally {
  place.close();
  rmSync(folder, { recursive: true, force: true });
}
