// Fetches files for the engine, in a worker beside the engine's: while one reads, the other analyses.
import { Stream } from "./stream";

export const ROOM = 1 << 20;
const BUFFERS = 3;

/** A file, and where its bytes are wanted: a part of no bytes is the last one. Buffers that come back are filled again, and `null` ends it. */
export type ToFetcher = { file: File; port: MessagePort };

const fetch = ({ data: { file, port } }: MessageEvent<ToFetcher>) => {
  const stream = new Stream(file);
  const free = Array.from({ length: BUFFERS }, () => new ArrayBuffer(ROOM));
  let fetching = false;
  const fill = async () => {
    if (fetching) return;
    fetching = true;
    for (let buffer = free.pop(); buffer; buffer = free.pop()) {
      // Whoever reads at this place finds the reason.
      const bytes = await stream.next(buffer).catch(() => new Uint8Array());
      const last = bytes.length === 0;
      port.postMessage(bytes, [bytes.buffer]);
      if (last) return;
    }
    fetching = false;
  };
  port.onmessage = ({ data: buffer }: MessageEvent<ArrayBuffer | null>) => {
    if (buffer) {
      free.push(buffer);
      void fill();
      return;
    }
    free.length = 0;
    stream.end();
    port.close();
  };
  void fill();
};

// The page sends the port at which the engine asks.
addEventListener("message", ({ data: port }: MessageEvent<MessagePort>) => {
  port.onmessage = fetch;
});
