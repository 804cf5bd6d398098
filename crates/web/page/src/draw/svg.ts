// A panel as SVG, with the points that are drawn on the screen.
import type { PanelInfo } from "../engine/types";
import { places, ticks } from "../units";
import { type Curves, draw, type Pen } from "./curves";

export interface Frame {
  width: number;
  height: number;
  from: number;
  to: number;
  color: (ink: string) => string;
}

const LEFT = 80;
const RIGHT = 16;
const TOP = 44;
const BOTTOM = 34;

function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/** About so many round values from one to another. */
export function rounds(from: number, to: number, count: number): number[] {
  const raw = (to - from) / Math.max(count, 1);
  if (!(raw > 0)) return [];
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * size >= raw) ?? 10) * size;
  const found: number[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) found.push(i * step);
  return found;
}

export function svg(info: PanelInfo, panel: Curves, frame: Frame): string {
  const { width, height, from, to, color } = frame;
  const x = (seconds: number) => LEFT + ((seconds - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (value: number) =>
    height - BOTTOM - ((value - panel.low) / (panel.high - panel.low)) * (height - TOP - BOTTOM);
  const at = (value: number) => value.toFixed(1);
  const shapes: string[] = [];
  const pen: Pen = {
    line(points, how, ink) {
      let path = "";
      let before = Number.NaN;
      for (let i = 0; i < points.length; i += 2) {
        const value = points[i + 1] ?? Number.NaN;
        if (Number.isNaN(value)) {
          before = value;
          continue;
        }
        const px = at(x(points[i] ?? 0));
        if (Number.isNaN(before)) path += `M${px} ${at(y(value))}`;
        else path += how === "steps" ? `H${px}V${at(y(value))}` : `L${px} ${at(y(value))}`;
        before = value;
      }
      const dashes = how === "dashed" ? ' stroke-dasharray="6 4"' : "";
      shapes.push(`<path d="${path}" fill="none" stroke="${color(ink)}" stroke-width="1.25"${dashes}/>`);
    },
    bars(points, ink) {
      let path = "";
      for (let i = 0; i + 3 < points.length; i += 4) {
        path += `M${at(x(points[i] ?? 0))} ${at(y(points[i + 1] ?? 0))}V${at(y(points[i + 3] ?? 0))}`;
      }
      shapes.push(`<path d="${path}" fill="none" stroke="${color(ink)}" stroke-width="1.25"/>`);
    },
    marks(points, how, ink) {
      const half = how === "crosses" ? 3.5 : 1.25;
      let path = "";
      for (let i = 0; i < points.length; i += 2) {
        const [px, py] = [x(points[i] ?? 0), y(points[i + 1] ?? 0)];
        path +=
          how === "dots"
            ? `M${at(px - half)} ${at(py)}h2.5`
            : `M${at(px - half)} ${at(py - half)}l7 7m0 -7l-7 7`;
      }
      const stroke = how === "dots" ? 2.5 : 1.25;
      shapes.push(`<path d="${path}" fill="none" stroke="${color(ink)}" stroke-width="${stroke}"/>`);
    },
  };
  draw(panel, pen);
  const values = rounds(panel.low, panel.high, 5);
  const times = info.axis?.log ? rounds(from, to, to - from) : rounds(from, to, 8);
  const valueNames = ticks(values, info.unit);
  const timeNames = places(times, info.axis);
  const grid = [
    ...values.map((value) => `M${LEFT} ${at(y(value))}H${width - RIGHT}`),
    ...times.map((time) => `M${at(x(time))} ${TOP}V${height - BOTTOM}`),
  ];
  const names = [
    ...values.map(
      (value, i) =>
        `<text x="${LEFT - 8}" y="${at(y(value) + 4)}" text-anchor="end">${escaped(valueNames[i] ?? "")}</text>`,
    ),
    ...times.map(
      (time, i) =>
        `<text x="${at(x(time))}" y="${height - BOTTOM + 18}" text-anchor="middle">${escaped(timeNames[i] ?? "")}</text>`,
    ),
  ];
  const keys = info.curves.map(
    ({ label, ink }) => `<tspan fill="${color(ink)}" dx="14">${escaped(label)}</tspan>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<title>${escaped(info.title)}</title>`,
    `<rect width="${width}" height="${height}" fill="${color("page")}"/>`,
    `<text x="${LEFT}" y="18" fill="${color("text")}" font-weight="bold">${escaped(info.title)}</text>`,
    `<text x="${LEFT - 14}" y="36">${keys.join("")}</text>`,
    ...(info.axis
      ? [
          `<text x="${width - RIGHT}" y="${height - BOTTOM - 6}" text-anchor="end" fill="${color("text")}">${escaped(info.axis.title)}</text>`,
        ]
      : []),
    `<path d="${grid.join("")}" stroke="${color("grid")}" fill="none"/>`,
    `<g fill="${color("text")}">${names.join("")}</g>`,
    `<clipPath id="inside"><rect x="${LEFT}" y="${TOP}" width="${width - LEFT - RIGHT}" height="${height - TOP - BOTTOM}"/></clipPath>`,
    `<g clip-path="url(#inside)">${shapes.join("")}</g>`,
    "</svg>",
  ].join("\n");
}
