// Figure 9 of [BCPQP] in the browser: one video and a download over time, behind each limiter.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { QUALITIES } from "./ladder.mjs";
import { percentile } from "./table.mjs";

/** Colours that colour-blind people can distinguish, as in the other studies: those of Okabe and Ito. */
const COLOURS = { video: "#0072B2", download: "#D55E00", buffer: "#009E73", quality: "#CC79A7" };
/** Of a panel, and around it; at the left and at the top there are texts. */
const [WIDTH, HEIGHT, GAP, LEFT, TOP, BOTTOM] = [220, 120, 22, 62, 66, 34];
const SECONDS = 45;

/** The rows of panels: the title of their axis, its marks, and their lines as [colour, points, steps]. */
const ROWS = [
  {
    title: "Mbit/s",
    marks: [0, 1, 2, 3, 4],
    // Without the last second, which the end of the video cuts off.
    lines: ({ seconds, end }) =>
      ["video", "download"].map((name, which) => {
        const points = seconds
          .slice(0, Math.floor(end))
          .map((bytes, second) => [second + 0.5, (bytes[which] * 8) / 1e6]);
        return { colour: COLOURS[name], points };
      }),
  },
  {
    title: "buffer, s",
    marks: [0, 10, 20, 30],
    // Half a second is enough for a reader.
    lines: ({ levels }) => [{ colour: COLOURS.buffer, points: levels.filter((_, index) => index % 2 === 0) }],
  },
  {
    title: "quality, kbit/s",
    marks: [0, ...QUALITIES.map(([, rate]) => rate).filter((rate) => rate > 250)],
    lines: ({ segments }) => {
      const steps = segments.flatMap(({ start, end, rate }, index) => {
        const until = segments[index + 1]?.start ?? end;
        return [start, until].map((time) => [time, rate / 1e3]);
      });
      return [{ colour: COLOURS.quality, points: steps }];
    },
  },
];

const text = (x, y, said, more = "") => `<text x="${x}" y="${y}" ${more}>${said}</text>`;

/** A panel whose lower left corner is here. */
function panel([left, bottom], { marks, lines }, run, names) {
  const across = (time) => (left + (Math.min(time, SECONDS) * WIDTH) / SECONDS).toFixed(1);
  const up = (value) => (bottom - (Math.min(value, marks.at(-1)) * HEIGHT) / marks.at(-1)).toFixed(1);
  const parts = [];
  for (const mark of marks) {
    parts.push(`<path d="M${left} ${up(mark)}h${WIDTH}" stroke="#E1E1E1"/>`);
    if (names) parts.push(text(left - 6, Number(up(mark)) + 4, mark, 'text-anchor="end"'));
  }
  for (const { colour, points } of lines(run)) {
    const path = points
      .filter(([time]) => time <= SECONDS)
      .map(([time, value]) => `${across(time)} ${up(value)}`);
    parts.push(`<path d="M${path.join("L")}" stroke="${colour}" stroke-width="1.5" fill="none"/>`);
  }
  parts.push(`<path d="M${left} ${bottom - HEIGHT}v${HEIGHT}h${WIDTH}" stroke="#000000" fill="none"/>`);
  return parts;
}

/** A picture of these videos with one rule and one sender. Of the runs behind a limiter, it is the one with the median join time. */
function picture(rows) {
  const [{ rule, cc }] = rows;
  const width = LEFT + rows.length * (WIDTH + GAP);
  const height = TOP + ROWS.length * (HEIGHT + GAP) + BOTTOM;
  const what = `A video (${cc === "bbr" ? "BBR" : cc === "cubic" ? "CUBIC" : "Reno"}, ${rule === "bola" ? "BOLA" : "throughput rule"}) beside a download in Chromium`;
  const parts = [text(LEFT, 20, what, 'font-size="14"')];
  for (const [index, name] of Object.keys(COLOURS).entries()) {
    const x = LEFT + 470 + index * 110;
    parts.push(`<path d="M${x} 16h18" stroke="${COLOURS[name]}" stroke-width="2"/>`, text(x + 24, 20, name));
  }
  for (const [column, { limiter, browser }] of rows.entries()) {
    const left = LEFT + column * (WIDTH + GAP);
    const usual = percentile(
      browser.map(({ join }) => join),
      50,
    );
    const run = browser.find(({ join }) => join === usual);
    parts.push(text(left + WIDTH / 2, TOP - 12, limiter, 'text-anchor="middle" font-size="13"'));
    for (const [index, row] of ROWS.entries()) {
      const bottom = TOP + index * (HEIGHT + GAP) + HEIGHT;
      parts.push(...panel([left, bottom], row, run, column === 0));
      if (column > 0) continue;
      const middle = bottom - HEIGHT / 2;
      const turned = `text-anchor="middle" transform="rotate(270, 14, ${middle})"`;
      parts.push(text(14, middle, row.title, turned));
    }
    const below = height - BOTTOM - GAP;
    for (let time = 0; time < SECONDS; time += 15)
      parts.push(text(left + (time * WIDTH) / SECONDS, below + 16, time, 'text-anchor="middle"'));
    parts.push(text(left + WIDTH / 2, below + 34, "s", 'text-anchor="middle"'));
  }
  const style = 'font-family="sans-serif" font-size="11"';
  const paper = `<rect width="${width}" height="${height}" fill="#FFFFFF"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${style}>\n${paper}\n${parts.join("\n")}\n</svg>\n`;
}

/** Writes figure-9-RULE-SENDER.svg for each rule and sender of the rows, beside this file. */
export function figures(rows) {
  const groups = new Map();
  for (const row of rows) {
    const name = `figure-9-${row.rule}-${row.cc}.svg`;
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  for (const [name, group] of groups) writeFileSync(join(import.meta.dirname, name), picture(group));
}
