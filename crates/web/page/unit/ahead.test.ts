import { expect, test } from "vitest";
import { Ahead } from "../src/engine/ahead";

const SIZE = (9 << 20) + 123;
const bytes = new Uint8Array(SIZE).map((_, i) => (i * 31) >> 7);
const AT_A_TIME = 256 << 10;

test("a file that is read ahead is the file", async () => {
  const ahead = new Ahead(new Blob([bytes]));
  const into = new Uint8Array(AT_A_TIME);
  let [offset, waits] = [0, 0];
  while (offset < SIZE) {
    const count = ahead.take(offset, into);
    if (count === null) {
      // Nothing more is here before it was waited for.
      expect(ahead.waits).toBe(true);
      waits++;
      await ahead.more();
      continue;
    }
    const wanted = bytes.subarray(offset, offset + count);
    expect(into.subarray(0, count).every((byte, i) => byte === wanted[i])).toBe(true);
    offset += count;
  }
  expect(waits).toBeGreaterThan(1);
  await ahead.more();
  expect(ahead.waits).toBe(false);
  expect(ahead.take(SIZE, into)).toBeNull();
  // What was passed is not kept.
  expect(ahead.take(0, into)).toBeNull();
});

test("a file that cannot be read is left to whoever reads it at once", async () => {
  const broken = {
    stream: () => new ReadableStream({ start: (control) => control.error(new Error("gone")) }),
  } as unknown as Blob;
  const ahead = new Ahead(broken);
  await ahead.more();
  expect(ahead.waits).toBe(false);
  expect(ahead.take(0, new Uint8Array(4))).toBeNull();
});

test("a file that is empty waits for nothing", async () => {
  const ahead = new Ahead(new Blob([]));
  await ahead.more();
  expect(ahead.waits).toBe(false);
  expect(ahead.take(0, new Uint8Array(4))).toBeNull();
});
