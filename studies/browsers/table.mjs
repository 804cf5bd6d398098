// The study's tables: printed line by line, and kept as files.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** How far apart two values may be to count as the same. */
const SAME = 0.15;

/** A value that divides the sorted ones. */
export function percentile(values, percent) {
  const sorted = values.filter((value) => value !== undefined && value !== null).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))];
}

const median = (values) => percentile(values, 50);
const pad = (text, width) => String(text).padEnd(width);
const number = (value, digits, width = 8) =>
  (Number.isFinite(value) ? value.toFixed(digits) : "-").padStart(width);

export class Table {
  lines = [];
  details = [];
  rows = [];

  constructor(name) {
    this.name = name;
  }

  print(line) {
    console.log(line);
    this.lines.push(line);
  }

  /** A video, in the browser and in the lab: medians and ranges of the runs of each. */
  video(row) {
    if (row.work !== undefined) {
      const { rule, work, held } = row;
      this.print(
        `${rule}: on a free line the browser needs ${work} ms to the first picture, and the first quality has ${held} segments.`,
      );
      this.print(
        "Each pair of columns: Chromium with dash.js in a shell, the lab's model; medians, and from the least to the most",
      );
      this.print(
        "rule        sender  limiter                    join, s       quality, kbit/s        rebuffering, %    switches                  fairness",
      );
      return;
    }
    this.rows.push(row);
    const { rule, cc, limiter, browser, lab } = row;
    const line = (start, cell) => {
      const pair = (key, digits, width, factor = 1) => {
        const of = (runs) =>
          cell(
            runs.map((run) => factor * run[key]).sort((a, b) => a - b),
            digits,
          );
        return of(browser).padStart(width) + of(lab).padStart(width);
      };
      this.print(
        pad(start, 33) +
          pair("join", 2, 11) +
          pair("quality", 0, 11) +
          pair("ratio", 2, 11, 100) +
          pair("switches", 0, 6) +
          pair("fairness", 3, 13),
      );
    };
    line(pad(rule, 12) + pad(cc, 8) + limiter, (runs, digits) => median(runs).toFixed(digits));
    const range = (runs, digits) => `${runs[0].toFixed(digits)}..${runs.at(-1).toFixed(digits)}`;
    line(`  runs: ${browser.length}, ${lab.length}`, range);
  }

  /** A visit of a page: in the file, these lines come after the summary. */
  web(row) {
    this.rows.push(row);
    const { limiter, download, path, load, paint, objects, bytes, lab } = row;
    const times = number(load, 2) + number(paint, 2) + number(lab, 2);
    const size = `${number(objects, 0, 5)}${number(bytes / 1e3, 0, 7)} kB`;
    const line = `${pad(limiter, 13)}${pad(download ?? "-", 7)}${times}${size}  ${path}`;
    console.log(line);
    this.details.push(line);
  }

  /** How far the lab's medians are from the browser's, over all videos of a rule; and single runs of the browser, as a yardstick. */
  distances(rule) {
    const rows = this.rows.filter((row) => row.rule === rule);
    for (const [key, what, floor] of [
      ["join", "join time", 0.1],
      ["quality", "quality", 1],
      ["ratio", "rebuffering", 0.002],
    ]) {
      const far = rows.map(({ browser, lab }) => {
        const [seen, model] = [browser, lab].map((runs) => runs.map((run) => run[key]));
        const usual = median(seen);
        const from = (value) => Math.abs(value - usual) / Math.max(usual, floor);
        return { lab: from(median(model)), browser: seen.length > 1 ? seen.map(from) : [] };
      });
      const within = (distances) =>
        `within ${100 * SAME} % in ${distances.filter((one) => one <= SAME).length} of ${distances.length}`;
      const labs = far.map(({ lab }) => lab);
      this.print(
        `${pad(rule, 12)}${pad(what, 12)} the lab is ${within(labs)} cases, median ${(100 * median(labs)).toFixed(1)} %; single runs of the browser are ${within(far.flatMap(({ browser }) => browser))} runs`,
      );
    }
  }

  /** Join times of the videos of all rules together: a rule chooses nothing until the first picture. */
  joins() {
    const name = ({ cc, limiter }) => pad(cc, 8) + limiter;
    for (const one of new Set(this.rows.map(name))) {
      const rows = this.rows.filter((row) => name(row) === one);
      const [browser, lab] = ["browser", "lab"].map((which) =>
        rows.flatMap((row) => row[which].map(({ join }) => join)),
      );
      const times = number(median(browser), 2) + number(median(lab), 2);
      this.print(
        `${pad("all rules", 12)}${pad(one, 24)}join, s${times}  runs: ${browser.length}, ${lab.length}`,
      );
    }
  }

  /** Page load times by limiter. */
  summary() {
    const free = this.rows.filter(({ limiter }) => limiter === "none");
    this.print(
      `${free.length} sites over ${free[0].protocol}: ${Math.min(...free.map((one) => one.objects))} to ${Math.max(...free.map((one) => one.objects))} objects, ${Math.round(Math.min(...free.map((one) => one.bytes)) / 1e3)} to ${Math.round(Math.max(...free.map((one) => one.bytes)) / 1e3)} kB`,
    );
    this.print(
      "download  limiter       page load time, s: 10 %    50 %    90 %  over BC-PQP  first paint 50 %  the lab: 50 %  over BC-PQP  of its loads within 15 %",
    );
    const groups = [...new Set(this.rows.map(({ download, limiter }) => `${download ?? "-"}|${limiter}`))];
    const of = (group) =>
      this.rows.filter(({ download, limiter }) => `${download ?? "-"}|${limiter}` === group);
    for (const group of groups) {
      const [download, limiter] = group.split("|");
      const [rows, best] = [of(group), of(`${download}|BC-PQP`)];
      const at = (rows, key, percent) =>
        percentile(
          rows.map((row) => row[key]),
          percent,
        );
      const over = (key) =>
        number(best.length > 0 ? at(rows, key, 50) / at(best, key, 50) : Number.NaN, 2, 13);
      const within = rows.filter(({ load, lab }) => Math.abs(lab / load - 1) <= SAME).length;
      this.print(
        `${pad(download, 10)}${pad(limiter, 14)}${number(at(rows, "load", 10), 2, 23)}${number(at(rows, "load", 50), 2)}${number(at(rows, "load", 90), 2)}${over("load")}${number(at(rows, "paint", 50), 2, 18)}${number(at(rows, "lab", 50), 2, 15)}${over("lab")}${number((100 * within) / rows.length, 0, 24)} %`,
      );
    }
  }

  /** The end of the table; `update` keeps it beside this file. */
  end(update) {
    if (this.name === "video") {
      const rules = new Set(this.rows.map((row) => row.rule));
      for (const rule of rules) this.distances(rule);
      if (rules.size > 1) this.joins();
    } else this.summary();
    const heading = "limiter      download load, s first paint, the lab: load; objects, bytes, page";
    const details = this.details.length > 0 ? ["", heading, ...this.details] : [];
    const text = `${[...this.lines, ...details].join("\n")}\n`;
    if (update) writeFileSync(join(import.meta.dirname, `measured-${this.name}.txt`), text);
  }
}
