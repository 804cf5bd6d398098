import program from "../../wasm/tidegate_web_bg.wasm?url";
import type { Live, Request } from "./types";
import type { FromWorker, ToWorker } from "./worker";

const NOT_STARTED = "the engine could not be started: load the page again";
const FAILED = "the engine failed and was started again: open the captures again";

interface Waiting {
  resolve: (reply: never) => void;
  reject: (error: Error) => void;
}

/** What answers the page: the engine in a worker, or `tidegate web`. */
export interface Answers {
  /** Called with how many bytes of a capture were read. */
  onRead: (capture: number, bytes: number) => void;
  /** Called with a sentence when the engine failed: it has begun again, and every capture is forgotten. */
  onFailed: (why: string) => void;
  /** An answer in JSON. */
  ask<T>(request: Request): Promise<T>;
  /** An answer in numbers. */
  numbers(request: Request): Promise<Float64Array>;
  text(request: Request): Promise<string>;
  /** Ends whatever the engine does, and forgets every capture. */
  restart(why: string): void;
}

/** The engine's program, compiled once for all workers: each further one starts with code that is optimised already. */
const compiled = WebAssembly.compileStreaming(fetch(program)).catch(async () =>
  // A server that does not know the type of such files.
  WebAssembly.compile(await (await fetch(program)).arrayBuffer()),
);
compiled.catch(() => {});

/** Asks the engine in the worker. */
export class Engine implements Answers {
  private worker: Worker;
  private next = 0;
  private readonly waiting = new Map<number, Waiting>();
  /** Why it answers nothing any more. */
  private ended: string | null = null;
  onRead: Answers["onRead"] = () => {};
  onFailed: Answers["onFailed"] = () => {};
  /** Called with the share of a simulation that is done. */
  onProgress: (share: number) => void = () => {};
  /** Called with what a simulation has counted while it runs. */
  onLive: (live: Live) => void = () => {};

  constructor() {
    this.worker = this.start();
  }

  private start(): Worker {
    this.ended = null;
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.receive(data);
    worker.onerror = (event) => this.fail(event.message || NOT_STARTED);
    compiled.then(
      (module) => worker.postMessage({ module } satisfies ToWorker),
      () => this.fail(NOT_STARTED),
    );
    return worker;
  }

  private receive(data: FromWorker): void {
    if ("capture" in data) {
      this.onRead(data.capture, data.read);
      return;
    }
    if ("progress" in data) {
      this.onProgress(data.progress);
      return;
    }
    if ("live" in data) {
      const told = JSON.parse(data.live) as Omit<Live, "numbers">;
      this.onLive({ ...told, numbers: data.numbers });
      return;
    }
    const waiting = this.waiting.get(data.id);
    this.waiting.delete(data.id);
    if ("error" in data) {
      waiting?.reject(new Error(data.error));
      if (data.fatal) {
        this.restart(FAILED);
        this.onFailed(FAILED);
      }
      return;
    }
    waiting?.resolve(data.reply as never);
  }

  private fail(why: string): void {
    this.ended = why;
    for (const { reject } of this.waiting.values()) reject(new Error(why));
    this.waiting.clear();
  }

  /** Ends the engine for good. */
  end(why = "stopped"): void {
    this.worker.terminate();
    this.fail(why);
  }

  restart(why: string): void {
    this.end(why);
    this.worker = this.start();
  }

  private post(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  open(capture: number, file: File): void {
    this.post({ capture, file });
  }

  private send<T>(request: Request): Promise<T> {
    const id = this.next++;
    if (this.ended !== null) return Promise.reject(new Error(this.ended));
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (reply: never) => void, reject });
      this.post({ id, request });
    });
  }

  async ask<T>(request: Request): Promise<T> {
    return JSON.parse(await this.send<string>(request)) as T;
  }

  numbers(request: Request): Promise<Float64Array> {
    return this.send<Float64Array>(request);
  }

  bytes(request: Request): Promise<Uint8Array<ArrayBuffer>> {
    return this.send<Uint8Array<ArrayBuffer>>(request);
  }

  text(request: Request): Promise<string> {
    return this.send<string>(request);
  }
}
