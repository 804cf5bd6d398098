// Real web pages beside a download: figure 7b of [BCPQP], in a browser, and in the lab from archives (HAR) of the same pages.
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { FREE, limiters, scenario, simulate } from "./scenario.mjs";
import { view } from "./shell.mjs";

/** Seconds of a shell at most, for each page. */
const PATIENCE = 120;
const LEAD = 4;
const VISITS = 3;

/** The lab's page load time from an archive: the median of some visits. */
function modelled({ program, folder }, archive, element, download) {
  copyFileSync(archive, join(folder, "page.har"));
  const traffic = `{ kind = "web", page = "page.har", handshake = "1500B", pause = "1s", visits = ${VISITS} }`;
  const seconds = LEAD + VISITS * PATIENCE;
  const text = scenario({ element, traffic, cc: "cubic", download, seconds, start: LEAD });
  const [row] = simulate(program, join(folder, "lab.toml"), text, "flow");
  return row.page_load_p50_s;
}

/** Visits the pages behind each limiter; `each` is given the result of each page. */
export async function pages({ program, folder, keep, kept, place, list, downloads, only }, each) {
  place.congestion("cubic");
  const visit = (element, download, name, tasks) =>
    keep(`web-${tasks.length}-${download}-${name}`, () => visitAll(element, download, tasks));
  const visitAll = async (element, download, tasks) => {
    const seconds = LEAD + PATIENCE * tasks.length;
    const text = scenario({
      element,
      traffic: '{ kind = "bulk" }',
      cc: "cubic",
      download,
      seconds,
      start: 0,
    });
    const task = { pages: tasks, download: download && { cc: download, seconds, lead: LEAD } };
    const { seen } = await view(program, folder, text, task);
    return seen.pages;
  };
  const archives = list.map((_, index) => join(kept, "archives", `${index}.har`));
  mkdirSync(join(kept, "archives"), { recursive: true });
  // Archives are taken on a fast line, where most of the time is the browser's.
  const recorded = await visit(
    FREE,
    null,
    "free",
    list.map((path, index) => ({ path, archive: archives[index] })),
  );
  for (const [index, page] of recorded.entries()) {
    if (page.failed || !existsSync(archives[index])) throw new Error(`${page.path}: ${page.failed}`);
    each({ limiter: "none", ...page, lab: modelled({ program, folder }, archives[index], FREE, null) });
  }
  for (const download of downloads) {
    for (const [limiter, element] of Object.entries(limiters(4))) {
      if (only && !only.includes(limiter)) continue;
      const seen = await visit(
        element,
        download,
        limiter,
        list.map((path) => ({ path })),
      );
      for (const [index, page] of seen.entries()) {
        const lab = modelled({ program, folder }, archives[index], element, download);
        each({ limiter, download, ...page, lab });
      }
    }
  }
}
