import type { Pen } from "./curves";

export interface Scale {
  /** Seconds to pixels of the canvas. */
  x: (seconds: number) => number;
  /** A value to pixels. */
  y: (value: number) => number;
  /** Pixels of the canvas for one of the page. */
  ratio: number;
  color: (ink: string) => string;
}

/** Draws on a canvas. */
export function canvasPen(context: CanvasRenderingContext2D, scale: Scale): Pen {
  const { x, y, ratio, color } = scale;
  return {
    line(points, how, ink) {
      context.beginPath();
      let before = Number.NaN;
      for (let i = 0; i < points.length; i += 2) {
        const value = points[i + 1] ?? Number.NaN;
        const [px, py] = [x(points[i] ?? 0), y(value)];
        if (Number.isNaN(before) || Number.isNaN(value)) context.moveTo(px, py);
        else {
          if (how === "steps") context.lineTo(px, y(before));
          context.lineTo(px, py);
        }
        before = value;
      }
      context.strokeStyle = color(ink);
      context.lineWidth = (how === "dashed" ? 1.5 : 1.25) * ratio;
      context.setLineDash(how === "dashed" ? [6 * ratio, 4 * ratio] : []);
      context.stroke();
      context.setLineDash([]);
    },
    bars(points, ink) {
      context.beginPath();
      for (let i = 0; i + 3 < points.length; i += 4) {
        const px = x(points[i] ?? 0);
        context.moveTo(px, y(points[i + 1] ?? 0));
        context.lineTo(px, y(points[i + 3] ?? 0));
      }
      context.strokeStyle = color(ink);
      context.lineWidth = 1.25 * ratio;
      context.stroke();
    },
    marks(points, how, ink) {
      const half = (how === "crosses" ? 3.5 : 1.25) * ratio;
      context.beginPath();
      for (let i = 0; i < points.length; i += 2) {
        const [px, py] = [x(points[i] ?? 0), y(points[i + 1] ?? 0)];
        if (how === "dots") context.rect(px - half, py - half, 2 * half, 2 * half);
        else {
          context.moveTo(px - half, py - half);
          context.lineTo(px + half, py + half);
          context.moveTo(px - half, py + half);
          context.lineTo(px + half, py - half);
        }
      }
      if (how === "dots") {
        context.fillStyle = color(ink);
        context.fill();
      } else {
        context.strokeStyle = color(ink);
        context.lineWidth = 1.25 * ratio;
        context.stroke();
      }
    },
  };
}
