// The engine in a worker: files are read here, a part at a time, and never leave the browser.
import init, { Engine } from "../../wasm/tidegate_web.js";
import { Ahead } from "./ahead";
import { Stream } from "./stream";
import type { Answer, Request } from "./types";

export type ToWorker =
  | { module: WebAssembly.Module }
  | { file: File; capture: number }
  | { id: number; request: Request };
export type FromWorker =
  | { id: number; reply: Answer }
  | { id: number; error: string; fatal: boolean }
  | { capture: number; read: number }
  | { progress: number }
  | { live: string; numbers: Float64Array[] };

const PART = 4 << 20;
const PAUSE_MS = 100;
const files = new Map<number, File>();
const reader = new FileReaderSync();
let part = { capture: -1, from: 0, bytes: new Uint8Array() };
/** The capture that is being read into the table. */
let reading: { capture: number; ahead: Ahead } | null = null;

function send(message: FromWorker, transfer: Transferable[] = []): void {
  postMessage(message, { transfer });
}

let told = 0;

/** Whether it is time to tell how much is done: ten times a second. */
function due(): boolean {
  const now = performance.now();
  if (now - told < PAUSE_MS) return false;
  told = now;
  return true;
}

function read(capture: number, offset: number, into: Uint8Array): number {
  const file = files.get(capture);
  if (!file) throw "the file is not open";
  if (offset >= file.size) return 0;
  if (due()) send({ capture, read: offset });
  const count = reading?.capture === capture ? reading.ahead.take(offset, into) : null;
  if (count !== null) return count;
  if (part.capture !== capture || offset < part.from || offset >= part.from + part.bytes.length) {
    const slice = file.slice(offset, offset + PART);
    part = { capture, from: offset, bytes: new Uint8Array(reader.readAsArrayBuffer(slice)) };
  }
  const begin = offset - part.from;
  const bytes = part.bytes.subarray(begin, begin + into.length);
  into.set(bytes);
  return bytes.length;
}

/** Tells how much is done. Answers whether it is time to show more than that. */
function progress(share: number): boolean {
  if (!due()) return false;
  send({ progress: share });
  return true;
}

function live(told: string, numbers: Float64Array[]): void {
  send(
    { live: told, numbers },
    numbers.map((one) => one.buffer as ArrayBuffer),
  );
}

Object.assign(globalThis, {
  tidegateRead: read,
  tidegateWaits: () => reading?.ahead.waits ?? false,
  tidegateProgress: progress,
  tidegateLive: live,
});
let start: (module: WebAssembly.Module) => void;
const engine = new Promise<WebAssembly.Module>((started) => {
  start = started;
})
  .then((module) => init({ module_or_path: module }))
  .then(() => new Engine());

/** Reads a capture into the table, while its next bytes are on their way. */
async function readAll(engine: Engine, capture: number, name: string): Promise<string> {
  const file = files.get(capture);
  if (!file) throw `${name}: the file is not open`;
  const ahead = new Ahead(new Stream(file));
  reading = { capture, ahead };
  try {
    await ahead.more();
    engine.begin(capture, name);
    for (;;) {
      const report = engine.proceed();
      if (report !== undefined) return report;
      await ahead.more();
      if (ahead.isWhole) send({ capture, read: file.size });
    }
  } finally {
    reading = null;
    ahead.end();
  }
}

async function answer({ id, request }: { id: number; request: Request }): Promise<void> {
  try {
    const asked = await engine;
    const reply: unknown =
      request.ask === "read"
        ? await readAll(asked, request.capture, request.name)
        : asked.answer(JSON.stringify(request));
    if (typeof reply === "string") send({ id, reply });
    else if (reply instanceof Float64Array || reply instanceof Uint8Array) {
      send({ id, reply: reply as Answer }, [reply.buffer as ArrayBuffer]);
    }
  } catch (error) {
    // A sentence is an answer. Anything else is a failure of the engine, whose memory cannot be trusted any more.
    const fatal = typeof error !== "string";
    send({ id, error: String(error), fatal });
  }
}

// One question after the other, in their order: some take several steps.
let last: Promise<void> = Promise.resolve();

addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("module" in data) start(data.module);
  else if ("file" in data) files.set(data.capture, data.file);
  else last = last.then(() => answer(data));
});
