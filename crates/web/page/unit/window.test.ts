import { expect, test } from "vitest";
import { part, scrolled, TALLEST } from "../src/view/window";

test("a short table is drawn where it is", () => {
  expect(scrolled({ top: 0, height: 300, row: 30, count: 5 })).toEqual({ first: 0, last: 5, shift: 0 });
  expect(scrolled({ top: 0, height: 300, row: 30, count: 0 })).toEqual({ first: 0, last: 0, shift: 0 });
});

test("the first and the last of ten million lines can be reached", () => {
  const view = { height: 600, row: 30, count: 10_000_000 };
  const end = scrolled({ ...view, top: TALLEST - 600 });
  expect(end.last).toBe(10_000_000);
  // The last line's lower edge is the lower edge of what is drawn.
  expect(10_000_000 * 30 - end.shift).toBe(TALLEST);
  expect(scrolled({ ...view, top: 0 }).first).toBe(0);
  for (let top = 0; top < TALLEST - 600; top += 99_991) {
    const { first, last, shift } = scrolled({ ...view, top });
    expect(last - first).toBeLessThan(50);
    expect(first * 30 - shift).toBeLessThanOrEqual(top);
    expect(last * 30 - shift).toBeGreaterThanOrEqual(top + 600);
  }
});

test("parts hold the lines that are in view", () => {
  expect(part(0, 20)).toEqual([0]);
  expect(part(95, 205)).toEqual([0, 1, 2]);
  expect(part(0, 0)).toEqual([]);
});
