// A panel's curves as the engine sends them: numbers in one array.
import type { CurveInfo } from "../engine/types";

export interface Curves {
  low: number;
  high: number;
  curves: { info: CurveInfo; points: Float64Array }[];
}

/** Takes apart what the engine sends for a panel; the points are views of the same memory. */
export function unpack(numbers: Float64Array, infos: CurveInfo[]): Curves {
  const [low = 0, high = 1] = numbers;
  let at = 2;
  const curves = infos.map((info) => {
    const count = numbers[at] ?? 0;
    const points = numbers.subarray(at + 1, at + 1 + 2 * count);
    at += 1 + 2 * count;
    return { info, points };
  });
  return { low, high, curves };
}

/** What draws: a canvas, or a picture as text. */
export interface Pen {
  line(points: Float64Array, how: "line" | "steps" | "dashed", ink: string): void;
  marks(points: Float64Array, how: "dots" | "crosses", ink: string): void;
  /** Upright bars, each from one point to the next. */
  bars(points: Float64Array, ink: string): void;
}

/** Draws what is in the back first. */
export function draw(panel: Curves, pen: Pen): void {
  for (const { info, points } of panel.curves) {
    if (info.mark === "dots" || info.mark === "crosses") pen.marks(points, info.mark, info.ink);
    else if (info.mark === "bars") pen.bars(points, info.ink);
    else pen.line(points, info.mark, info.ink);
  }
}

/** Which of points, in the order of time, is the last one up to a time; −1 if there is none. */
function before(points: Float64Array, at: number): number {
  let [low, high] = [0, points.length / 2];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[2 * middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The value that a curve shows at a time, or nothing where it shows none. Marks count `near` a time. */
export function valueAt({ info, points }: Curves["curves"][number], at: number, near: number): number | null {
  const place = before(points, at);
  const time = (i: number) => points[2 * i] ?? Number.NaN;
  const value = (i: number) => points[2 * i + 1] ?? Number.NaN;
  let found = Number.NaN;
  if (info.mark === "dots" || info.mark === "crosses") {
    const closer =
      at - time(place) <= time(place + 1) - at || Number.isNaN(time(place + 1)) ? place : place + 1;
    if (Math.abs(time(closer) - at) <= near) found = value(closer);
  } else if (info.mark === "steps") {
    // A curve that is over has no value any more.
    if (!Number.isNaN(time(place + 1)) || at - time(place) <= near) found = value(place);
  } else if (info.mark !== "bars") {
    const share = (at - time(place)) / (time(place + 1) - time(place));
    found = value(place) + (share > 0 ? share * (value(place + 1) - value(place)) : 0);
  }
  return Number.isNaN(found) ? null : found;
}
