// A panel on the screen: uPlot has the axes and the cursor, the curves are drawn from what the engine sends.
import uPlot from "uplot";
import type { PanelInfo, View } from "../engine/types";
import { place, places, ticks, value } from "../units";
import { type Curves, draw, unpack, valueAt } from "./curves";
import { Raster } from "./raster";

export interface Range {
  from: number;
  to: number;
}

export interface Hooks {
  numbers: (panel: string, view: View) => Promise<Float64Array>;
  color: (ink: string) => string;
  /** Takes the error of a question for numbers. */
  failed: (error: unknown) => void;
  hover: (seconds: number | null) => void;
}

const FONT = "12px system-ui, sans-serif";
const HEIGHTS: Record<string, number> = { sequence: 340 };
const HEIGHT = 180;
/** Pixels beside the pointer in which a mark counts as pointed at. */
const NEAR = 4;

/** Pixels between ticks: enough for the digits that tell a tick from the next one. */
function room(from: number, to: number): number {
  const digits = Math.log10(Math.max(Math.abs(from), Math.abs(to)) / ((to - from) / 10));
  return Math.max(50, 36 + 7 * Math.ceil(digits));
}

export class PanelPlot {
  readonly plot: uPlot;
  curves: Curves;
  private range: Range;
  private asked = false;
  private stale = false;
  private over = false;
  /** The frame in which it will be drawn, if it must be. */
  private due = 0;
  private marked = false;
  private ended = false;
  /** The pixels that the points were chosen for. */
  private chosen = { width: 0, height: 0 };
  private raster = new Raster(1, 1);
  /** Where the pixels of the curves become a picture that can be laid over the grid. */
  private readonly layer = document.createElement("canvas");
  /** What the curves show where the pointer is. */
  private readonly values = document.createElement("div");

  constructor(
    readonly info: PanelInfo,
    root: HTMLElement,
    range: Range,
    private readonly hooks: Hooks,
  ) {
    this.range = range;
    this.curves = { low: 0, high: 1, curves: [] };
    const axis = (names: (splits: number[]) => string[]): uPlot.Axis => ({
      stroke: () => hooks.color("text"),
      grid: { stroke: () => hooks.color("grid"), width: 1 },
      ticks: { show: false },
      font: FONT,
      values: (_, splits) => names(splits),
    });
    const across: uPlot.Axis = { ...axis((splits) => places(splits, info.axis)), size: 28 };
    // Powers of ten have whole logarithms. Other names grow as a person zooms in.
    if (info.axis?.log) across.incrs = [1, 2, 5];
    else across.space = (_plot, _axis, from, to) => room(from, to);
    if (info.axis) {
      across.label = info.axis.title;
      across.labelFont = FONT;
      across.labelSize = 20;
    }
    this.plot = new uPlot(
      {
        width: Math.max(root.clientWidth, 200),
        height: HEIGHTS[info.key] ?? HEIGHT,
        scales: {
          x: { time: false, range: () => [this.range.from, this.range.to] },
          y: { range: () => [this.curves.low, this.curves.high] },
        },
        axes: [across, { ...axis((splits) => ticks(splits, info.unit)), size: 80 }],
        series: [{}, {}],
        legend: { show: false },
        cursor: {
          ...(info.axis ? {} : { sync: { key: "tidegate" } }),
          drag: { x: false, y: false },
          points: { show: false },
          y: false,
        },
        hooks: { draw: [(plot) => this.paint(plot)], setCursor: [(plot) => this.point(plot)] },
      },
      this.data(),
      root,
    );
    this.values.className = "values";
    // Those who do not see it hear of packets, or read the tables.
    this.values.ariaHidden = "true";
    this.plot.over.append(this.values);
    void this.ask();
  }

  private data(): uPlot.AlignedData {
    return [
      [this.range.from, this.range.to],
      [null, null],
    ];
  }

  private point(plot: uPlot): void {
    const left = plot.cursor.left ?? -1;
    const at = left < 0 ? null : plot.posToVal(left, "x");
    this.tell(at);
    if (this.over) this.hooks.hover(at);
  }

  /** Writes what the curves show at a place, on the side where the pointer is not. */
  private tell(at: number | null): void {
    const { values, info } = this;
    if (at === null && !values.firstChild) return;
    const { from, to } = this.range;
    // The browser would lay out the page for an element's width.
    const near = (NEAR * uPlot.pxRatio * (to - from)) / this.size().width;
    const lines: HTMLElement[] = (at === null ? [] : this.curves.curves).flatMap((curve) => {
      const found = valueAt(curve, at ?? 0, near);
      if (found === null) return [];
      const line = document.createElement("div");
      line.className = `key ${curve.info.ink}`;
      line.textContent = `${curve.info.label}: ${value(found, info.unit)}`;
      return [line];
    });
    if (lines.length > 0) {
      const head = document.createElement("b");
      head.textContent = place(at ?? 0, info.axis);
      lines.unshift(head);
    }
    values.replaceChildren(...lines);
    values.classList.toggle("left", at !== null && at > (from + to) / 2);
  }

  /** Whether the pointer is over this panel: the others only follow. */
  setOver(over: boolean): void {
    this.over = over;
    if (!over) this.hooks.hover(null);
  }

  private paint(plot: uPlot): void {
    const { width, height } = this.size();
    if (this.raster.width !== width || this.raster.height !== height) {
      this.raster = new Raster(width, height);
      this.layer.width = width;
      this.layer.height = height;
    }
    const { raster, layer } = this;
    const { from, to } = this.range;
    const { low, high } = this.curves;
    raster.begin({ from, to, low, high, ratio: devicePixelRatio, color: this.hooks.color });
    draw(this.curves, raster);
    const image = new ImageData(new Uint8ClampedArray(raster.pixels.buffer), width, height);
    layer.getContext("2d")?.putImageData(image, 0, 0);
    plot.ctx.drawImage(layer, Math.round(plot.bbox.left), Math.round(plot.bbox.top));
    // The axes took more or less room than before.
    if (width !== this.chosen.width || height !== this.chosen.height) void this.ask();
  }

  /** The pixels that the curves are drawn on. */
  private size(): { width: number; height: number } {
    const { width, height } = this.plot.bbox;
    return { width: Math.max(Math.round(width), 1), height: Math.max(Math.round(height), 1) };
  }

  /** Draws with the next frame: once, however often it is asked for until then. */
  private schedule(): void {
    this.due ||= requestAnimationFrame(() => {
      this.due = 0;
      this.plot.setData(this.data());
    });
  }

  /** Shows another part: at once with the points that are there, and soon with the right ones. */
  look(range: Range): void {
    this.range = range;
    this.schedule();
    void this.ask();
  }

  /** One question at a time: of those that come meanwhile only the last matters. */
  private async ask(): Promise<void> {
    if (this.asked) {
      this.stale = true;
      return;
    }
    this.asked = true;
    const { from, to } = this.range;
    const { width, height } = this.size();
    this.chosen = { width, height };
    const view = { from, to, columns: width, rows: height };
    try {
      this.curves = unpack(await this.hooks.numbers(this.info.key, view), this.info.curves);
      this.schedule();
    } catch (error) {
      if (!this.ended) this.hooks.failed(error);
    }
    this.asked = false;
    if (this.stale) {
      this.stale = false;
      void this.ask();
    }
  }

  /** Where a time is, in pixels of the page from the left edge of the curves. */
  private place(seconds: number): number {
    const { from, to } = this.range;
    return ((seconds - from) / (to - from)) * (this.plot.bbox.width / uPlot.pxRatio);
  }

  /** Puts the cursor at a time. */
  pointAt(seconds: number): void {
    this.plot.setCursor({ left: this.place(seconds), top: 0 }, false);
    this.tell(seconds);
  }

  /** Marks a part, or none. */
  mark(part: Range | null): void {
    if (!part && !this.marked) return;
    this.marked = part !== null;
    const left = part ? this.place(part.from) : 0;
    const right = part ? this.place(part.to) : 0;
    const height = this.plot.bbox.height / uPlot.pxRatio;
    this.plot.setSelect({ left, top: 0, width: right - left, height }, false);
  }

  /** Asks for the points again, since they are others. */
  refresh(): void {
    void this.ask();
  }

  resize(width: number): void {
    if (Math.abs(width - this.plot.width) < 1) return;
    this.plot.setSize({ width, height: this.plot.height });
    void this.ask();
  }

  repaint(): void {
    this.plot.redraw(false, true);
  }

  destroy(): void {
    this.ended = true;
    cancelAnimationFrame(this.due);
    this.plot.destroy();
  }
}
