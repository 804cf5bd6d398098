// A panel on the screen: uPlot has the axes and the cursor, the curves are drawn from what the engine sends.
import uPlot from "uplot";
import type { PanelInfo, View } from "../engine/types";
import { places, ticks } from "../units";
import { canvasPen } from "./canvas";
import { type Curves, draw, unpack } from "./curves";

export interface Range {
  from: number;
  to: number;
}

export interface Hooks {
  numbers: (panel: string, view: View) => Promise<Float64Array>;
  color: (ink: string) => string;
  hover: (seconds: number | null) => void;
}

const HEIGHTS: Record<string, number> = { sequence: 340 };
const HEIGHT = 190;

export class PanelPlot {
  readonly plot: uPlot;
  curves: Curves;
  private range: Range;
  private asked = false;
  private stale = false;
  private over = false;

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
      font: "12px system-ui, sans-serif",
      values: (_, splits) => names(splits),
    });
    const across: uPlot.Axis = axis((splits) => places(splits, info.axis));
    // Powers of ten have whole logarithms.
    if (info.axis?.log) across.incrs = [1, 2, 5];
    if (info.axis) {
      across.label = info.axis.title;
      across.labelFont = "12px system-ui, sans-serif";
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
    void this.ask();
  }

  private data(): uPlot.AlignedData {
    return [
      [this.range.from, this.range.to],
      [null, null],
    ];
  }

  private point(plot: uPlot): void {
    if (!this.over) return;
    const left = plot.cursor.left ?? -1;
    this.hooks.hover(left < 0 ? null : plot.posToVal(left, "x"));
  }

  /** Whether the pointer is over this panel: the others only follow. */
  setOver(over: boolean): void {
    this.over = over;
    if (!over) this.hooks.hover(null);
  }

  private paint(plot: uPlot): void {
    const { ctx: context, bbox } = plot;
    context.save();
    context.beginPath();
    context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    context.clip();
    // One multiplication a point instead of a call into uPlot.
    const wide = bbox.width / (this.range.to - this.range.from);
    const { low, high } = this.curves;
    const tall = bbox.height / (high - low);
    const pen = canvasPen(context, {
      x: (seconds) => bbox.left + (seconds - this.range.from) * wide,
      y: (value) => bbox.top + bbox.height - (value - low) * tall,
      ratio: devicePixelRatio,
      color: this.hooks.color,
    });
    draw(this.curves, pen);
    context.restore();
  }

  /** Shows another part: at once with the points that are there, and soon with the right ones. */
  look(range: Range): void {
    this.range = range;
    this.plot.setData(this.data());
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
    const { width, height } = this.plot.bbox;
    const view = { from, to, columns: Math.max(Math.round(width), 1), rows: Math.max(Math.round(height), 1) };
    try {
      this.curves = unpack(await this.hooks.numbers(this.info.key, view), this.info.curves);
      this.plot.setData(this.data());
    } catch {
      // The transfer was closed meanwhile.
    }
    this.asked = false;
    if (this.stale) {
      this.stale = false;
      void this.ask();
    }
  }

  /** Puts the cursor at a time. */
  pointAt(seconds: number): void {
    this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 0 }, false);
  }

  /** Marks a part, or none. */
  mark(part: Range | null): void {
    const left = part ? this.plot.valToPos(part.from, "x") : 0;
    const right = part ? this.plot.valToPos(part.to, "x") : 0;
    const height = this.plot.over.clientHeight;
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
    this.plot.destroy();
  }
}
