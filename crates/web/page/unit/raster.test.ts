import { expect, test } from "vitest";
import { pixel, Raster } from "../src/draw/raster";

const INK = "rgb(11, 98, 168)";
const [WIDTH, HEIGHT] = [60, 40];

function raster(frame: { from: number; to: number; ratio?: number }): Raster {
  const drawn = new Raster(WIDTH, HEIGHT);
  drawn.begin({ low: 0, high: 1, ratio: 1, color: () => INK, ...frame });
  return drawn;
}

/** The first, least, greatest and last point of each column, as the engine chooses them. */
function decimated(points: number[][], from: number, to: number): number[][] {
  const columns = new Map<number, number[][]>();
  for (const point of points) {
    const at = Math.floor(((point[0] as number) - from) * (WIDTH / (to - from)));
    const place = Math.min(Math.max(at, -1), WIDTH);
    const column = columns.get(place);
    if (column) column.push(point);
    else columns.set(place, [point]);
  }
  return [...columns.values()].flatMap((column) => {
    const sorted = column.toSorted((one, other) => (one[1] as number) - (other[1] as number));
    const chosen = [column[0], sorted[0], sorted.at(-1), column.at(-1)];
    return column.filter((point) => chosen.includes(point));
  });
}

const wave = Array.from({ length: 20_000 }, (_, i) => {
  const at = i * 0.00113;
  return [at, 0.5 + 0.3 * Math.sin(at * 37) + 0.15 * Math.cos(at * 3.1)];
});

test("the points that the engine chooses draw the pixels that all points draw", () => {
  for (const how of ["line", "steps", "dashed"] as const) {
    for (const [from, to] of [
      [0, 22.6],
      [3.3, 4.1],
      [11, 11.05],
      [20, 40],
    ] as const) {
      const [all, few] = [raster({ from, to }), raster({ from, to })];
      const points = decimated(wave, from, to);
      all.line(new Float64Array(wave.flat()), how, "blue");
      few.line(new Float64Array(points.flat()), how, "blue");
      expect(points.length).toBeLessThan(wave.length / 2);
      expect(all.pixels.some((pixel) => pixel !== 0)).toBe(true);
      expect(few.pixels.every((pixel, i) => pixel === all.pixels[i])).toBe(true);
    }
  }
});

/** The rows of a column that are covered, at least in half. */
function rows({ pixels }: Raster, column: number): number[] {
  const covered = Array.from({ length: HEIGHT }, (_, row) => row);
  return covered.filter((row) => (pixels[row * WIDTH + column] ?? 0) >>> 24 >= 128);
}

test("steps hold a value until the next one, and an interruption leaves a gap", () => {
  const drawn = raster({ from: 0, to: WIDTH });
  const gap = Number.NaN;
  drawn.line(new Float64Array([2, 0.1125, 20, 0.5125, 30, 0.5125, 31, gap, 40, 0.1125]), "steps", "blue");
  expect(rows(drawn, 10)).toEqual([35]);
  expect(rows(drawn, 20).length).toBeGreaterThan(15);
  expect(rows(drawn, 25)).toEqual([19]);
  expect(rows(drawn, 35)).toEqual([]);
  // It stands alone, but is seen.
  expect(rows(drawn, 40)).toEqual([35]);
});

test("a line reaches the edges, however far away its ends are", () => {
  const drawn = raster({ from: 0, to: 1 });
  drawn.line(new Float64Array([-1e9, 0.5125, 1e9, 0.5125]), "line", "blue");
  for (const column of [0, 30, WIDTH - 1]) expect(rows(drawn, column)).toEqual([19]);
  drawn.line(new Float64Array([0.5, -1e12, 0.5, 1e12]), "line", "blue");
  expect(rows(drawn, 30).length).toBe(HEIGHT);
});

test("marks and bars are cut off at the edges", () => {
  const drawn = raster({ from: 0, to: WIDTH });
  drawn.marks(new Float64Array([0, 0, WIDTH - 1, 0.999, -5, 0.5, 70, 2]), "dots", "blue");
  drawn.marks(new Float64Array([0, 0, WIDTH - 1, 0.999]), "crosses", "blue");
  drawn.bars(new Float64Array([10, -3, 10, 7, 20, 0.5, 20, 0.5]), "blue");
  expect(rows(drawn, 10).length).toBe(HEIGHT);
  expect(rows(drawn, 20).length).toBe(1);
  expect(rows(drawn, 30)).toEqual([]);
  expect(drawn.pixels[(HEIGHT - 1) * WIDTH]).toBe(pixel(INK) >>> 0);
  expect(drawn.pixels[WIDTH - 1]).toBe(pixel(INK) >>> 0);
});

test("a pixel that is covered in part shows what is behind it", () => {
  const drawn = raster({ from: 0, to: WIDTH });
  drawn.line(new Float64Array([0, 0.5, WIDTH, 0.5]), "line", "blue");
  const alone = (drawn.pixels[20 * WIDTH + 5] ?? 0) >>> 24;
  expect(alone).toBeGreaterThan(0);
  expect(alone).toBeLessThan(255);
  drawn.marks(new Float64Array([30, 0.5]), "dots", "blue");
  drawn.line(new Float64Array([0, 0.5, WIDTH, 0.5]), "line", "blue");
  expect((drawn.pixels[20 * WIDTH + 30] ?? 0) >>> 24).toBe(255);
});
