// The view is in the address, behind the #, which is never sent to a server.

/** The views besides Analyse, which needs no name. */
const VIEWS = ["lab", "gate", "studies"] as const;

export interface Address {
  view?: (typeof VIEWS)[number];
  scenario?: string;
  study?: string;
  /** A gate's subscriber. */
  subscriber?: string;
  /** Two captures that are compared. */
  first?: string;
  second?: string;
  capture?: string;
  flow?: number;
  segment?: number;
  side?: "client" | "server";
  from?: number;
  to?: number;
  window?: number;
  sort?: string;
  descending?: boolean;
  find?: string;
  cause?: string;
  all?: boolean;
}

function number(text: string | null): number | undefined {
  if (text === null || text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : undefined;
}

export function parse(hash: string): Address {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const side = fields.get("side");
  const found: Record<keyof Address, unknown> = {
    view: VIEWS.find((view) => view === fields.get("view")),
    scenario: fields.get("scenario") ?? undefined,
    study: fields.get("study") ?? undefined,
    subscriber: fields.get("subscriber") ?? undefined,
    first: fields.get("first") ?? undefined,
    second: fields.get("second") ?? undefined,
    capture: fields.get("capture") ?? undefined,
    flow: number(fields.get("flow")),
    segment: number(fields.get("segment")),
    side: side === "client" || side === "server" ? side : undefined,
    from: number(fields.get("from")),
    to: number(fields.get("to")),
    window: number(fields.get("window")) || undefined,
    sort: fields.get("sort") ?? undefined,
    descending: fields.get("descending") === "1" || undefined,
    find: fields.get("find") ?? undefined,
    cause: fields.get("cause") ?? undefined,
    all: fields.get("all") === "1" || undefined,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) as Address;
}

export function format(address: Address): string {
  const fields = new URLSearchParams();
  for (const [key, value] of Object.entries(address)) {
    if (value === undefined || value === "" || value === false) continue;
    fields.set(
      key,
      value === true ? "1" : typeof value === "number" ? String(Number(value.toPrecision(9))) : value,
    );
  }
  const text = fields.toString();
  return text === "" ? "" : `#${text}`;
}

/** A capture's name as addresses have it: another one that is open and has the same file name has another number behind it. */
export function unused(name: string, open: string[]): string {
  for (let number = 1; ; number++) {
    const found = number === 1 ? name : `${name} (${number})`;
    if (!open.includes(found)) return found;
  }
}
