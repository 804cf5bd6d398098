// How long a browser takes to hand over a file to a worker that does nothing with it, by each way that a page has: node ways.mjs FILE ROUNDS prints
// the median and the least time, and the processor time of all the browser's processes. PAGE_BROWSER=firefox-esr measures Firefox.
import { browserTime } from "./processes.mjs";
import { browse, FIREFOX } from "./serve.mjs";

/** Runs in the worker. A way calls `see` with each part that came, in any order. */
const WORKER = `
const whole = (see) => (buffer) => see(new Uint8Array(buffer));
const offsets = (file, part, from = 0, step = part) => {
  const all = [];
  for (let at = from; at < file.size; at += step) all.push(at);
  return all;
};
async function byob(stream, part, see, least = part) {
  const reader = stream.getReader({ mode: "byob" });
  let buffer = new ArrayBuffer(part);
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(buffer), { min: least });
    if (value?.length) see(value);
    if (done) return;
    buffer = value.buffer;
  }
}
/** Some at a time. */
async function each(all, flight, work) {
  const left = [...all];
  await Promise.all(Array.from({ length: flight }, async () => { while (left.length) await work(left.shift()); }));
}
async function url(file, work) {
  const address = URL.createObjectURL(file);
  await work(address);
  URL.revokeObjectURL(address);
}
const ways = {
  stream: (file, see, { part, least }) => byob(file.stream(), part, see, least),
  chunks: async (file, see) => { for await (const value of file.stream()) see(value); },
  /** Several streams at once, each of another part of the file. */
  streams: (file, see, { part, streams }) => {
    const size = Math.ceil(file.size / streams);
    return Promise.all(offsets(file, size).map((at) => byob(file.slice(at, at + size).stream(), part, see)));
  },
  /** Streams of blocks, which could be put in order with as much memory as the blocks that are in flight. */
  blocks: (file, see, { part, block, flight }) =>
    each(offsets(file, block), flight, (at) => byob(file.slice(at, at + block).stream(), part, see)),
  slices: (file, see, { part, flight }) =>
    each(offsets(file, part), flight, (at) => file.slice(at, at + part).arrayBuffer().then(whole(see))),
  sync: (file, see, { part, index, of }) => {
    const reader = new FileReaderSync();
    for (const at of offsets(file, part, part * index, part * of)) whole(see)(reader.readAsArrayBuffer(file.slice(at, at + part)));
  },
  reader: (file, see) => new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(whole(see)(reader.result));
    reader.readAsArrayBuffer(file);
  }),
  response: (file, see) => new Response(file).arrayBuffer().then(whole(see)),
  fetched: (file, see) => url(file, async (address) => whole(see)(await (await fetch(address)).arrayBuffer())),
  fetchedStream: (file, see, { part }) => url(file, async (address) => byob((await fetch(address)).body, part, see)),
  request: (file, see) => url(file, (address) => new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "arraybuffer";
    request.onload = () => done(whole(see)(request.response));
    request.send();
  })),
  /** Straight into memory of WebAssembly. */
  engine: (file, see, { part }) => file.stream().getReader({ mode: "byob" }).read(new Uint8Array(new WebAssembly.Memory({ initial: part >> 16 }).buffer)),
};
onmessage = async ({ data: { file, way, options } }) => {
  let bytes = 0;
  const see = (value) => { bytes += value.length; };
  try {
    await ways[way](file, see, { part: 1 << 20, flight: 1, index: 0, of: 1, ...options });
    postMessage({ bytes });
  } catch (error) {
    postMessage({ refused: String(error) });
  }
};`;

const MB = 1 << 20;
const parts = (name, way, sizes, options = {}) =>
  sizes.map((size) => [`${name}, ${size} MB`, way, { part: size * MB, ...options }]);
/** As src/engine/stream.ts reads. */
export const PAGES_WAY = ["a stream into a buffer, 1 MB", "stream", {}];
const WAYS = [
  PAGES_WAY,
  ["a stream into a buffer, 64 kB", "stream", { part: 65_536 }],
  ["a stream into a buffer, 1 MB or less", "stream", { least: 1 }],
  ...parts("a stream into a buffer", "stream", [4, 16]),
  ["a stream of chunks", "chunks", {}],
  ["4 streams at once, of the file's quarters", "streams", { streams: 4 }],
  ["2 streams at once, of blocks of 16 MB", "blocks", { block: 16 * MB, flight: 2 }],
  ["3 streams at once, of blocks of 8 MB", "blocks", { block: 8 * MB, flight: 3 }],
  ...parts("slices", "slices", [1, 4, 16, 64]),
  ...parts("4 slices at once", "slices", [1, 4, 16], { flight: 4 }),
  ...parts("FileReaderSync", "sync", [1, 4, 16, 128]),
  ...parts("FileReaderSync in 2 workers", "sync", [4, 16], { workers: 2 }),
  ["the whole file, arrayBuffer", "slices", { part: 1 << 30 }],
  ["the whole file, FileReader", "reader", {}],
  ["the whole file, Response", "response", {}],
  ["the whole file, fetch of a blob URL", "fetched", {}],
  ["fetch of a blob URL, a stream, 1 MB", "fetchedStream", {}],
  ["the whole file, XMLHttpRequest of a blob URL", "request", {}],
  ["a stream into WebAssembly's memory", "engine", {}],
];

/** What reads a file by a way: it answers how long that took and the processor time, or why the browser refuses. */
export async function receiver(browser, path) {
  // A page of its own, since ours allows no such worker.
  const page = await browser.newPage();
  await page.setContent("<input type=file>");
  await page.setInputFiles("input", path);
  const input = await page.evaluateHandle((text) => {
    const address = URL.createObjectURL(new Blob([text]));
    const workers = [new Worker(address), new Worker(address)];
    return Object.assign(document.querySelector("input"), { workers });
  }, WORKER);
  return async ([, way, { workers = 1, ...options }]) => {
    const before = await browserTime(browser);
    const found = await input.evaluate(
      async ({ workers: all, files: [file] }, { way, workers, options }) => {
        const begun = performance.now();
        const replies = all.slice(0, workers).map(
          (worker, index) =>
            new Promise((done) => {
              worker.onmessage = ({ data }) => done(data);
              worker.postMessage({ file, way, options: { ...options, index, of: workers } });
              // Chromium 156 sometimes never answers.
              setTimeout(() => done({ late: true }), 3000);
            }),
        );
        const told = await Promise.all(replies);
        const wall = (performance.now() - begun) / 1e3;
        const bytes = told.reduce((all, { bytes = 0 }) => all + bytes, 0);
        const refused = told.find((one) => one.refused)?.refused;
        return { wall, refused, complete: bytes === file.size };
      },
      { way, workers, options },
    );
    return { ...found, cpu: (await browserTime(browser)) - before };
  };
}

if (process.argv[1] === import.meta.filename) {
  const [path, rounds = "10"] = process.argv.slice(2);
  const browser = await browse();
  try {
    const receive = await receiver(browser, path);
    const found = new Map(WAYS.map((way) => [way, []]));
    // The first round is not counted.
    for (let round = 0; round <= Number(rounds); round++) {
      for (const [way, all] of found) {
        const one = await receive(way);
        if (round > 0) all.push(one);
      }
    }
    for (const [[name], all] of found) {
      const complete = all.filter((one) => one.complete);
      const middle = (what) =>
        complete.map((one) => one[what]).toSorted((a, b) => a - b)[complete.length >> 1];
      if (complete.length === 0) console.log(`${name}: ${all[0].refused ?? "no answer"}`);
      else {
        const least = Math.min(...complete.map(({ wall }) => wall));
        const late =
          all.length > complete.length ? `, ${all.length - complete.length} without an answer` : "";
        const cpu = FIREFOX ? "" : `, processor time ${middle("cpu").toFixed(3)} s`;
        console.log(`${name}: ${middle("wall").toFixed(3)} s, at least ${least.toFixed(3)} s${cpu}${late}`);
      }
    }
  } finally {
    await browser.close();
  }
}
