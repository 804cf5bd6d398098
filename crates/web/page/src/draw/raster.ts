// Curves as pixels in memory. A canvas takes tens of milliseconds for a hundred thousand marks or a line that fills the panel; this takes
// one or two. Each column of pixels is covered as far as the curve reaches in it, so that the points that the engine chose for each column
// draw the pixels that all points would draw.
import type { Pen } from "./curves";

export interface Frame {
  /** Seconds at the left and the right edge. */
  from: number;
  to: number;
  /** Values at the lower and the upper edge. */
  low: number;
  high: number;
  /** Pixels of the raster for one of the page. */
  ratio: number;
  /** The colour of an ink, as a style has it. */
  color: (ink: string) => string;
}

/** A colour as a pixel of an image has it in memory: red first. */
export function pixel(color: string): number {
  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map(Number);
  return (255 << 24) | (blue << 16) | (green << 8) | red | 0;
}

/** Bytes of a pixel. */
const RED = 0;
const GREEN = 8;
const BLUE = 16;
const ALPHA = 24;
const byte = (pixel: number, place: number) => (pixel >>> place) & 255;

/** What a cross covers, as places beside its centre and shares of a pixel. */
interface Stamp {
  ratio: number;
  covered: [number, number, number][];
}

function crossed(ratio: number): Stamp {
  const half = 3.5 * ratio;
  const covered: Stamp["covered"] = [];
  const reach = Math.round(half);
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const aside = Math.abs(Math.abs(dx) - Math.abs(dy)) / Math.SQRT2;
      const share = Math.min(0.625 * ratio + 0.5 - aside, 1);
      if (share > 0) covered.push([dx, dy, share]);
    }
  }
  return { ratio, covered };
}

/** Pixels that curves are drawn on. */
export class Raster implements Pen {
  readonly pixels: Uint32Array<ArrayBuffer>;
  private frame: Frame = { from: 0, to: 1, low: 0, high: 1, ratio: 1, color: () => "" };
  private stamp = crossed(1);

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.pixels = new Uint32Array(width * height);
  }

  /** Begins an empty picture of a part. */
  begin(frame: Frame): void {
    this.frame = frame;
    this.pixels.fill(0);
    if (this.stamp.ratio !== frame.ratio) this.stamp = crossed(frame.ratio);
  }

  /** Covers a share of a pixel. */
  private cover(at: number, ink: number, share: number): void {
    const { pixels } = this;
    const below = pixels[at] ?? 0;
    const alpha = byte(below, ALPHA) / 255;
    if (share >= 1) {
      pixels[at] = ink;
      return;
    }
    const rest = alpha * (1 - share);
    const all = share + rest;
    const mixed = (place: number) =>
      Math.round((byte(ink, place) * share + byte(below, place) * rest) / all) << place;
    pixels[at] = (Math.round(all * 255) << ALPHA) | mixed(BLUE) | mixed(GREEN) | mixed(RED);
  }

  /** Covers a column from one height to another, where pixels are covered in part at the ends. */
  private span(column: number, top: number, bottom: number, ink: number): void {
    const { width, height, pixels } = this;
    if (column < 0 || column >= width) return;
    const [from, to] = [Math.max(top, 0), Math.min(bottom, height)];
    if (!(from < to)) return;
    const [first, last] = [Math.floor(from), Math.ceil(to) - 1];
    if (first === last) {
      this.cover(first * width + column, ink, to - from);
      return;
    }
    this.cover(first * width + column, ink, first + 1 - from);
    const end = last * width + column;
    for (let at = (first + 1) * width + column; at < end; at += width) pixels[at] = ink;
    this.cover(end, ink, to - last);
  }

  line(points: Float64Array, how: "line" | "steps" | "dashed", ink: string): void {
    const { width, height } = this;
    const { from, to, low, high, ratio, color } = this.frame;
    const painted = pixel(color(ink));
    const [wide, tall] = [width / (to - from), height / (high - low)];
    const half = ((how === "dashed" ? 1.5 : 1.25) * ratio) / 2;
    // A steep line is as thick as a level one.
    const thick = Math.max(Math.round(ratio), 1);
    const [dash, dashes] = how === "dashed" ? [6 * ratio, 10 * ratio] : [1, 1];
    // The column that the line is in, and how far it reaches there.
    let column = -1;
    let top = 0;
    let bottom = 0;
    const leave = () => {
      if (column < 0 || (dashes > 1 && column % dashes >= dash)) return;
      for (let i = 0; i < thick; i++) this.span(column + i, top - half, bottom + half, painted);
    };
    const enter = (next: number, y: number) => {
      leave();
      column = next;
      top = y;
      bottom = y;
    };
    const reach = (y: number) => {
      if (y < top) top = y;
      if (y > bottom) bottom = y;
    };
    const draw = (x0: number, y0: number, x1: number, y1: number) => {
      if (x1 < 0 || x0 >= width) return;
      const slope = x1 > x0 ? (y1 - y0) / (x1 - x0) : 0;
      let begin = Math.floor(x0);
      if (begin < 0) {
        enter(0, y0 - x0 * slope);
        begin = 0;
      } else if (begin !== column) enter(begin, y0);
      else reach(y0);
      const end = Math.min(Math.floor(x1), width);
      for (let next = begin + 1; next <= end; next++) {
        const y = y0 + (next - x0) * slope;
        reach(y);
        enter(next, y);
      }
      if (x1 < width) reach(y1);
    };
    let x0 = 0;
    let y0 = Number.NaN;
    for (let i = 0; i + 1 < points.length; i += 2) {
      const x1 = ((points[i] as number) - from) * wide;
      const y1 = height - ((points[i + 1] as number) - low) * tall;
      if (Number.isNaN(y0) || Number.isNaN(y1)) {
        leave();
        column = -1;
        // A point that stands alone is seen.
        if (!Number.isNaN(y1)) draw(x1, y1, x1, y1);
      } else if (how === "steps") {
        draw(x0, y0, x1, y0);
        draw(x1, y0, x1, y1);
      } else draw(x0, y0, x1, y1);
      x0 = x1;
      y0 = y1;
    }
    leave();
  }

  bars(points: Float64Array, ink: string): void {
    const { width, height } = this;
    const { from, to, low, high, ratio, color } = this.frame;
    const painted = pixel(color(ink));
    const [wide, tall] = [width / (to - from), height / (high - low)];
    const thick = Math.max(Math.round(ratio), 1);
    for (let i = 0; i + 3 < points.length; i += 4) {
      const column = Math.floor(((points[i] as number) - from) * wide);
      const one = height - ((points[i + 1] as number) - low) * tall;
      const other = height - ((points[i + 3] as number) - low) * tall;
      const [top, bottom] = [Math.min(one, other), Math.max(one, other)];
      // A bar of no height is seen.
      for (let k = 0; k < thick; k++) this.span(column + k, top, Math.max(bottom, top + 1), painted);
    }
  }

  marks(points: Float64Array, how: "dots" | "crosses", ink: string): void {
    const { width, height } = this;
    const { from, to, low, high, ratio, color } = this.frame;
    const painted = pixel(color(ink));
    const [wide, tall] = [width / (to - from), height / (high - low)];
    const size = Math.max(Math.round(2.5 * ratio), 1);
    for (let i = 0; i + 1 < points.length; i += 2) {
      // The pixel that the engine counts the point to.
      const column = Math.floor(((points[i] as number) - from) * wide);
      const row = height - 1 - Math.floor(((points[i + 1] as number) - low) * tall);
      if (how === "dots") this.dot(column - (size >> 1), row - (size >> 1), size, painted);
      else this.cross(column, row, painted);
    }
  }

  private dot(left: number, top: number, size: number, ink: number): void {
    const { width, height, pixels } = this;
    const [from, to] = [Math.max(left, 0), Math.min(left + size, width)];
    const end = Math.min(top + size, height);
    for (let row = Math.max(top, 0); row < end; row++) {
      for (let at = row * width + from; at < row * width + to; at++) pixels[at] = ink;
    }
  }

  private cross(column: number, row: number, ink: number): void {
    const { width, height } = this;
    for (const [dx, dy, share] of this.stamp.covered) {
      const [x, y] = [column + dx, row + dy];
      if (x >= 0 && x < width && y >= 0 && y < height) this.cover(y * width + x, ink, share);
    }
  }
}
