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
