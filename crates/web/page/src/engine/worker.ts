// The engine in a worker: files are read here, a part at a time, and never leave the browser.
import init, { Engine } from "../../wasm/tidegate_web.js";
import type { Answer, Request } from "./types";

export type ToWorker = { file: File; capture: number } | { id: number; request: Request };
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

function send(message: FromWorker, transfer: Transferable[] = []): void {
  postMessage(message, { transfer });
}

function read(capture: number, offset: number, into: Uint8Array): number {
  const file = files.get(capture);
  if (!file) throw "the file is not open";
  if (part.capture !== capture || offset < part.from || offset >= part.from + part.bytes.length) {
    if (offset >= file.size) return 0;
    const slice = file.slice(offset, offset + PART);
    part = { capture, from: offset, bytes: new Uint8Array(reader.readAsArrayBuffer(slice)) };
    send({ capture, read: offset });
  }
  const begin = offset - part.from;
  const bytes = part.bytes.subarray(begin, begin + into.length);
  into.set(bytes);
  return bytes.length;
}

let told = 0;

/** Tells how much is done, ten times a second. Answers whether it is time to show more than that. */
function progress(share: number): boolean {
  const now = performance.now();
  if (now - told < PAUSE_MS) return false;
  told = now;
  send({ progress: share });
  return true;
}

function live(told: string, numbers: Float64Array[]): void {
  send(
    { live: told, numbers },
    numbers.map((one) => one.buffer as ArrayBuffer),
  );
}

Object.assign(globalThis, { tidegateRead: read, tidegateProgress: progress, tidegateLive: live });
const engine = init().then(() => new Engine());

addEventListener("message", async ({ data }: MessageEvent<ToWorker>) => {
  if ("file" in data) {
    files.set(data.capture, data.file);
    return;
  }
  const { id, request } = data;
  try {
    const reply: unknown = (await engine).answer(JSON.stringify(request));
    if (typeof reply === "string") send({ id, reply });
    else if (reply instanceof Float64Array || reply instanceof Uint8Array) {
      send({ id, reply: reply as Answer }, [reply.buffer as ArrayBuffer]);
    }
  } catch (error) {
    // A sentence is an answer. Anything else is a failure of the engine, whose memory cannot be trusted any more.
    const fatal = typeof error !== "string";
    send({ id, error: String(error), fatal });
  }
});
