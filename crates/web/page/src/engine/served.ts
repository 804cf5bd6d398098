// Asks `tidegate web`, which reads the captures in the folders that it was given.
import { key } from "../key";
import type { Answers } from "./engine";
import type { Request } from "./types";

/** A capture in a folder of `tidegate web`. */
export interface Listed {
  number: number;
  name: string;
  bytes: number;
}

/** The captures in the folders, and in sentences what is not among them. */
export interface Listing {
  captures: Listed[];
  left_out: string[];
}

const authorized = { Authorization: `Bearer ${key}` };

/** Another page has the place of this one, or its desk failed: what it read is forgotten. */
const LOST = [410, 500];

async function checked(answer: Response): Promise<Response> {
  if (!answer.ok) throw new Error((await answer.text()).trim() || `tidegate web answered ${answer.status}`);
  return answer;
}

/** Browsers do not say which server they cannot reach. */
function unreached(error: unknown): never {
  throw error instanceof TypeError ? new Error("tidegate web does not answer: does it still run?") : error;
}

/** The captures in the folders. */
export async function list(): Promise<Listing> {
  const answer = await fetch("api/captures", { headers: authorized }).catch(unreached);
  return (await checked(answer)).json() as Promise<Listing>;
}

export class Served implements Answers {
  onRead: Answers["onRead"] = () => {};
  onFailed: Answers["onFailed"] = () => {};
  private desk = this.another();
  private stopping = new AbortController();

  constructor() {
    // A page that is only put aside may come back, and asks on then.
    window.addEventListener("pagehide", ({ persisted }) => {
      if (!persisted) this.leave();
    });
  }

  /** Each page has a desk, by a number that no other page has. */
  private another(): string {
    const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
    return `api/desks/${(high & 0xfffff) * 2 ** 32 + low}`;
  }

  private async send(request: Request): Promise<Response> {
    const { desk } = this;
    const { signal } = this.stopping;
    const headers = { ...authorized, "Content-Type": "application/json" };
    const question = { method: "POST", headers, body: JSON.stringify(request), signal };
    let answered = false;
    const watch = async () => {
      while (!answered && (request.ask === "read" || request.ask === "explain")) {
        await new Promise((done) => setTimeout(done, 300));
        const told = await fetch(desk, { headers: authorized }).catch(() => null);
        if (!answered && told?.ok) this.onRead(request.capture, Number(await told.text()));
      }
    };
    void watch();
    try {
      const reply = await fetch(desk, question).catch(unreached);
      if (LOST.includes(reply.status) && desk === this.desk) {
        const why = (await reply.clone().text()).trim();
        this.restart(why);
        this.onFailed(why);
      }
      return await checked(reply);
    } finally {
      answered = true;
    }
  }

  async ask<T>(request: Request): Promise<T> {
    return (await this.send(request)).json() as Promise<T>;
  }

  async numbers(request: Request): Promise<Float64Array> {
    return new Float64Array(await (await this.send(request)).arrayBuffer());
  }

  async text(request: Request): Promise<string> {
    return (await this.send(request)).text();
  }

  restart(why: string): void {
    this.stopping.abort(new Error(why));
    this.stopping = new AbortController();
    this.leave();
    this.desk = this.another();
  }

  /** Gives the desk back. */
  private leave(): void {
    const question = { method: "DELETE", headers: authorized, keepalive: true };
    void fetch(this.desk, question).catch(() => {});
  }
}
