import { expect, test } from "vitest";
import { unpack, valueAt } from "../src/draw/curves";
import { keyed, moved, zoomed } from "../src/draw/gestures";
import { rounds, svg } from "../src/draw/svg";
import type { CurveInfo, PanelInfo } from "../src/engine/types";
import { ticks, time, value } from "../src/units";

const curve = (key: string, mark: CurveInfo["mark"]): CurveInfo => ({
  key,
  label: `<${key}>`,
  mark,
  ink: "blue",
  points: 2,
});

test("a panel's numbers are taken apart", () => {
  const numbers = new Float64Array([0, 10, 2, 0, 1, 1, 2, 0, 1, 5, 6]);
  const { low, high, curves } = unpack(numbers, [
    curve("a", "line"),
    curve("b", "dots"),
    curve("c", "crosses"),
  ]);
  expect([low, high]).toEqual([0, 10]);
  expect(curves.map(({ points }) => [...points])).toEqual([[0, 1, 1, 2], [], [5, 6]]);
});

test("zoom keeps the place under the pointer, and keys end at the transfer's ends", () => {
  expect(zoomed({ from: 0, to: 10 }, 0.5, 0.2)).toEqual({ from: 1, to: 6 });
  expect(moved({ from: 2, to: 4 }, 0.5)).toEqual({ from: 3, to: 5 });
  expect(keyed("Home", { from: 2, to: 4 }, 10)).toEqual({ from: 0, to: 2 });
  expect(keyed("End", { from: 2, to: 4 }, 10)).toEqual({ from: 8, to: 10 });
  expect(keyed("0", { from: 2, to: 4 }, 10)).toEqual({ from: 0, to: 10 });
  expect(keyed("x", { from: 2, to: 4 }, 10)).toBeNull();
});

test("a picture holds its curves and escapes its names", () => {
  const info: PanelInfo = {
    key: "p",
    title: "A & B",
    unit: "B",
    axis: null,
    note: null,
    curves: [curve("a", "steps"), curve("b", "crosses")],
  };
  const numbers = new Float64Array([0, 10, 3, 0, 1, 1, Number.NaN, 2, 2, 1, 1, 5]);
  const text = svg(info, unpack(numbers, info.curves), {
    width: 400,
    height: 200,
    from: 0,
    to: 2,
    color: (ink) => ink,
  });
  expect(text).toContain("A &amp; B");
  expect(text).toContain("&lt;a&gt;");
  expect(text).not.toContain("NaN");
  // An interruption begins a line again.
  expect(text.match(/<path d="M[^"]*M/)).not.toBeNull();
});

test("a panel over another measure names it, and bars go from point to point", () => {
  const info: PanelInfo = {
    key: "p",
    title: "Gaps",
    unit: "%",
    axis: { title: "from one to the next", unit: "s", log: true, from: -3, to: 1 },
    note: null,
    curves: [curve("a", "bars")],
  };
  const numbers = new Float64Array([0, 100, 2, -1, 20, -1, 80]);
  const frame = { width: 400, height: 200, from: -3, to: 1, color: (ink: string) => ink };
  const text = svg(info, unpack(numbers, info.curves), frame);
  expect(text).toContain("from one to the next");
  for (const name of ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "40 %"]) expect(text).toContain(`>${name}<`);
  expect(text.match(/<path d="M[\d.]+ [\d.]+V[\d.]+"/)).not.toBeNull();
});

test("axes have round values", () => {
  expect(rounds(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(rounds(0, 0, 5)).toEqual([]);
  expect(ticks([0, 0.5, 1.5], "s")).toEqual(["0 s", "0.5 s", "1.5 s"]);
  expect(ticks([0, 500, 1500], "packets")).toEqual(["0 packets", "500 packets", "1,500 packets"]);
  expect(ticks([0, 1000, 2500], "B")).toEqual(["0 kB", "1 kB", "2.5 kB"]);
  // Neighbours have different names however close they are.
  expect(ticks([12.3456785, 12.345679, 12.3456795], "s")).toEqual([
    "12.3456785 s",
    "12.345679 s",
    "12.3456795 s",
  ]);
  expect(ticks([1_234_567_250, 1_234_567_500], "B")).toEqual(["1.23456725 GB", "1.2345675 GB"]);
});

test("values have a unit", () => {
  expect(value(1_500_000, "bit/s")).toBe("1.50 Mbit/s");
  expect(value(999, "B")).toBe("999 B");
  expect(value(null, "B")).toBe("-");
  expect(value(12_345, "packets")).toBe("12,345 packets");
  expect(value(1234.5, "packets")).toBe("1,235 packets");
  expect(value(0.5, "packets")).toBe("0.5 packets");
  expect(time(0.0421)).toBe("42.1 ms");
});

test("what curves show at a time", () => {
  const info = (mark: "line" | "steps" | "dots" | "dashed" | "bars") => ({
    key: "",
    label: "",
    ink: "blue",
    mark,
    points: 3,
  });
  const points = Float64Array.from([0, 1, 2, 5, 4, Number.NaN]);
  const at = (mark: "line" | "steps" | "dots" | "dashed" | "bars", time: number) =>
    valueAt({ info: info(mark), points }, time, 0.5);
  expect([at("line", -1), at("line", 0), at("line", 1), at("line", 2)]).toEqual([null, 1, 3, 5]);
  // No line leads to an interruption, and none goes on behind the last point.
  expect([at("line", 3), at("line", 9)]).toEqual([null, null]);
  expect([at("steps", 1.9), at("steps", 2), at("steps", 3.9), at("steps", 5)]).toEqual([1, 5, 5, null]);
  // A dot is only where it is.
  expect([at("dots", 0.4), at("dots", 1), at("dots", 1.6), at("dots", -0.4)]).toEqual([1, null, 5, 1]);
  expect(at("bars", 1)).toBeNull();
  expect(valueAt({ info: info("dots"), points: new Float64Array() }, 1, 0.5)).toBeNull();
});
