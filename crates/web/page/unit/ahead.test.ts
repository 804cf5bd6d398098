import { expect, test } from "vitest";
import { Ahead, type Parts } from "../src/engine/ahead";
import { Stream } from "../src/engine/stream";

const SIZE = (9 << 20) + 123;
const bytes = new Uint8Array(SIZE).map((_, i) => (i * 31) >> 7);
const AT_A_TIME = 256 << 10;

/** The parts of a file, and how many of them were given back. */
function parts(file: Blob): Parts & { back: number } {
  const stream = new Stream(file, 50);
  return {
    back: 0,
    next: () => stream.next(),
    used(bytes) {
      this.back++;
      stream.used(bytes);
    },
    end: () => stream.end(),
  };
}

/** Reads as the engine does: it waits for more when little is left. Returns how often. */
async function readAll(ahead: Ahead): Promise<number> {
  const into = new Uint8Array(AT_A_TIME);
  let [offset, waits] = [0, 0];
  while (offset < SIZE) {
    if (ahead.waits) {
      waits++;
      await ahead.more();
    }
    const count = ahead.take(offset, into);
    expect(count).not.toBeNull();
    const wanted = bytes.subarray(offset, offset + (count ?? 0));
    expect(into.subarray(0, wanted.length).every((byte, i) => byte === wanted[i])).toBe(true);
    offset += wanted.length;
  }
  return waits;
}

test("a file that is read ahead is the file", async () => {
  const from = parts(new Blob([bytes]));
  const ahead = new Ahead(from);
  expect(await readAll(ahead)).toBeGreaterThan(8);
  while (ahead.waits) await ahead.more();
  expect(ahead.take(SIZE, new Uint8Array(4))).toBeNull();
  // What was passed is not kept, and its buffers are used again.
  expect(ahead.take(0, new Uint8Array(4))).toBeNull();
  expect(from.back).toBe(10);
});

test("a stream that stops answering is left, and nothing is lost", async () => {
  const blob = new Blob([bytes]);
  let reads = 0;
  const stuck = {
    stream: () =>
      new ReadableStream({
        type: "bytes",
        pull: (control) => {
          const request = control.byobRequest;
          const view = request?.view;
          // Then it never answers.
          if (!request || !view || ++reads > 3) return new Promise<void>(() => {});
          const [into, from] = [new Uint8Array(view.buffer, view.byteOffset), (reads - 1) * 300_000];
          into.set(bytes.subarray(from, from + 300_000));
          request.respond(300_000);
          return;
        },
      }),
    slice: (from: number, to: number) => blob.slice(from, to),
  } as unknown as Blob;
  await readAll(new Ahead(parts(stuck)));
  expect(reads).toBe(4);
});

test("a file that cannot be read is left to whoever reads it at once", async () => {
  const broken = {
    stream: () => new ReadableStream({ type: "bytes", start: (control) => control.error(new Error("gone")) }),
  } as unknown as Blob;
  const ahead = new Ahead(parts(broken));
  await ahead.more();
  expect(ahead.waits).toBe(false);
  expect(ahead.take(0, new Uint8Array(4))).toBeNull();
});

test("parts that do not come are left to the one that reads at once", async () => {
  const from = parts(new Blob([bytes]));
  let asked = 0;
  const next = () => (++asked > 1 ? new Promise<never>(() => {}) : from.next());
  const ahead = new Ahead({ ...from, next }, 50);
  await ahead.more();
  expect(ahead.take(0, new Uint8Array(4))).toBe(4);
  await ahead.more();
  expect(ahead.waits).toBe(false);
  // What came before is not lost.
  expect(ahead.take(4, new Uint8Array(4))).toBe(4);
  expect(ahead.take(1 << 20, new Uint8Array(4))).toBeNull();
  await ahead.more();
  expect(asked).toBe(2);
});

test("a file that is empty waits for nothing", async () => {
  const ahead = new Ahead(parts(new Blob([])));
  await ahead.more();
  expect(ahead.waits).toBe(false);
  expect(ahead.take(0, new Uint8Array(4))).toBeNull();
});
