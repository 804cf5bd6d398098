// The bytes of a file, one buffer after the other. A stream fills buffers that are used again and again: a browser takes longer to find memory
// for new ones than to read a file that it has read before.
import { within } from "./patience";

/** Bytes in a part. Chromium 156 takes longer with 64 kB, and with 16 MB. */
const ROOM = 1 << 20;
/** Chromium 156 left a read of such a stream without an answer for ever, in 3 of 100 files of 100 MB. One that takes this long is given up. */
const PATIENCE_MS = 1000;

type Read = { done: boolean; value: Uint8Array<ArrayBuffer> | undefined };

export class Stream {
  private reader: ReadableStreamBYOBReader | null = null;
  /** Where the next bytes are in the file. */
  private at = 0;
  private readonly free: ArrayBuffer[] = [];

  constructor(
    private readonly file: Blob,
    private readonly patience = PATIENCE_MS,
    private readonly room = ROOM,
  ) {
    try {
      this.reader = file.stream().getReader({ mode: "byob" });
    } catch {
      // A browser whose files are no such streams.
    }
  }

  /** The next bytes, as many as a buffer has room for; none at the end. */
  async next(): Promise<Uint8Array<ArrayBuffer>> {
    const { room } = this;
    let bytes = new Uint8Array(this.free.pop() ?? new ArrayBuffer(room), 0, 0);
    while (this.reader && bytes.length < room) {
      const { length } = bytes;
      const into = new Uint8Array(bytes.buffer, length);
      const read = this.reader.read(into, { min: room - length }) as Promise<Read>;
      const found = await within(this.patience, read);
      if (!found) {
        // The buffer is lost with the stream. What is in it is read again.
        this.end();
        this.reader = null;
        break;
      }
      if (!found.value?.length)
        return this.passed(found.value ? new Uint8Array(found.value.buffer, 0, length) : bytes);
      bytes = new Uint8Array(found.value.buffer, 0, length + found.value.length);
    }
    if (this.reader) return this.passed(bytes);
    return this.passed(new Uint8Array(await this.file.slice(this.at, this.at + room).arrayBuffer()));
  }

  /** Bytes that are not needed any more: their buffer is filled again. */
  used({ buffer }: Uint8Array<ArrayBuffer>): void {
    if (this.reader) this.free.push(buffer);
  }

  private passed(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    this.at += bytes.length;
    return bytes;
  }

  end(): void {
    void this.reader?.cancel().catch(() => {});
  }
}
