// A file as a stream: the browser fetches its next bytes while the engine works on those that are here. They come into the same buffer
// again and again: a browser takes longer to find memory for new ones than to read a file that it has read before.

const ROOM = 4 << 20;

type Read = { done: boolean; value: Uint8Array<ArrayBuffer> | undefined };

/** The stream of a file, which fills the buffer that it is given where the browser can do that. */
function source(file: Blob): { read: (buffer: ArrayBuffer) => Promise<Read>; cancel: () => void } {
  const cancel = (reader: ReadableStreamGenericReader) => () => void reader.cancel().catch(() => {});
  const stream = file.stream();
  try {
    const reader = stream.getReader({ mode: "byob" });
    const read = (buffer: ArrayBuffer) => reader.read(new Uint8Array(buffer)) as Promise<Read>;
    return { read, cancel: cancel(reader) };
  } catch {
    const reader = stream.getReader();
    return { read: () => reader.read() as Promise<Read>, cancel: cancel(reader) };
  }
}

export class Ahead {
  private readonly source;
  private buffer = new ArrayBuffer(ROOM);
  private bytes = new Uint8Array();
  /** Where these bytes begin in the file, and where the engine is. */
  private from = 0;
  private at = 0;
  private ended = false;

  constructor(file: Blob) {
    this.source = source(file);
  }

  /** Waits for the bytes that follow those that are here, which must have been taken. */
  async more(): Promise<void> {
    if (this.ended) return;
    this.from += this.bytes.length;
    try {
      const { done, value } = await this.source.read(this.buffer);
      this.ended = done;
      this.bytes = value ?? new Uint8Array();
      if (value) this.buffer = value.buffer;
    } catch {
      // Whoever reads at this place finds the reason.
      this.ended = true;
      this.bytes = new Uint8Array();
    }
  }

  /** Copies bytes that are here; returns how many, or nothing where this place is not here. */
  take(offset: number, into: Uint8Array): number | null {
    const begin = offset - this.from;
    this.at = offset;
    if (begin < 0 || begin >= this.bytes.length) return null;
    const bytes = this.bytes.subarray(begin, begin + into.length);
    into.set(bytes);
    this.at += bytes.length;
    return bytes.length;
  }

  /** Whether all that is here was taken, and more is on its way. */
  get waits(): boolean {
    return !this.ended && this.at >= this.from + this.bytes.length;
  }

  end(): void {
    this.source.cancel();
  }
}
