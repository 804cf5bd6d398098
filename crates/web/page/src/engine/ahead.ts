// The bytes of a file that came before the engine needs them. While it works on them, the browser has the next ones ready.
import { within } from "./patience";

/** The engine pauses when fewer bytes than this are left: a frame that does not end here has to be read by itself. */
const LEFT = 64 << 10;
/** Bytes that take longer than this to come are waited for no more: the engine reads them, and what follows, by itself. */
const PATIENCE_MS = 5000;

/** Where the parts of a file come from, in their order; one of no bytes is the last. */
export interface Parts {
  next: () => Promise<Uint8Array<ArrayBuffer>>;
  /** A part that is not needed any more. */
  used: (bytes: Uint8Array<ArrayBuffer>) => void;
  end: () => void;
}

export class Ahead {
  /** Bytes that are here, and where they begin in the file. */
  private here: { from: number; bytes: Uint8Array<ArrayBuffer> }[] = [];
  /** Where they end, and where the engine is. */
  private to = 0;
  private at = 0;
  private ended = false;

  constructor(
    private readonly parts: Parts,
    private readonly patience = PATIENCE_MS,
  ) {}

  /** Waits for the bytes that follow those that are here. */
  async more(): Promise<void> {
    if (this.ended) return;
    // Whoever reads where a part failed finds the reason.
    const next = this.parts.next().catch(() => null);
    const bytes = await within(this.patience, next);
    this.ended = !bytes?.length;
    if (!bytes) return;
    this.here.push({ from: this.to, bytes });
    this.to += bytes.length;
  }

  /** Copies bytes that are here; returns how many, or nothing where this place is not here. */
  take(offset: number, into: Uint8Array): number | null {
    this.at = offset;
    for (let part = this.here[0]; part; part = this.here[0]) {
      const begin = offset - part.from;
      if (begin < 0) return null;
      if (begin < part.bytes.length) {
        const bytes = part.bytes.subarray(begin, begin + into.length);
        into.set(bytes);
        this.at += bytes.length;
        return bytes.length;
      }
      this.here.shift();
      if (part.bytes.length > 0) this.parts.used(part.bytes);
    }
    return null;
  }

  /** Whether little is left of what is here, and more is on its way. */
  get waits(): boolean {
    return !this.ended && this.to - this.at < LEFT;
  }

  /** Whether the rest of the file is here, or will not come. */
  get isWhole(): boolean {
    return this.ended;
  }

  end(): void {
    this.parts.end();
  }
}
