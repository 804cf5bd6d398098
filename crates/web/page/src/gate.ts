// A running gate, through `tidegate web --gate`: what it does now, and what it did since the page looks.

import { batch, computed, effect, signal } from "@preact/signals";
import { key, serves } from "./key";
import { linkedSubscriber } from "./state";
import { format } from "./url";

// docs/reference/gate-api.md describes these.
interface Counted {
  passed_packets: number;
  passed_bytes: number;
  excess_packets: number;
  excess_bytes: number;
}
export interface Queue {
  length: number;
  magic: number;
  passed_bytes: number;
  excess_bytes: number;
}
interface Limited extends Counted {
  rate: number | null;
  /** What is saved of the boost, where the plan has one. */
  boost?: { saved_bytes: number; most_bytes: number };
  queues?: Queue[];
}
/** What a line feels, where the gate watches flows. Times are milliseconds. */
interface Trips {
  p50_ms: number | null;
  p95_ms: number | null;
}
interface Segments {
  again_share: number | null;
}
export interface Line {
  score: number | null;
  access: Trips;
  core: Trips;
  down: Segments;
  up: Segments;
}
interface Way {
  passed_bytes: number;
  excess_bytes: number;
  again: number;
  trip_ms: number | null;
  queue: number;
}
export interface Flow {
  protocol: string;
  local: string;
  local_port: number;
  remote: string;
  remote_port: number;
  down: Way;
  up: Way;
}
/** A part of the network that several subscribers share. */
interface Load {
  capacity: number;
  rate: number;
  share: number;
  full: boolean;
}
export interface Node {
  name: string;
  parent?: string;
  down: Load;
  up: Load;
}
export interface Subscriber {
  name: string;
  /** Missing where the subscriber has none. */
  plan: string | null;
  parent?: string;
  line?: Line;
  set: boolean;
  suspended: boolean;
  /** Why `plan` is in force instead of `base_plan`. */
  turn: string | null;
  base_plan?: string;
  usage?: { month: string; down_bytes: number; up_bytes: number; quota_bytes: number | null };
  matches: string[];
  down: Limited | null;
  up: Limited | null;
}
/** The other gate of a pair. Times are seconds. */
export interface Pair {
  peer: string;
  age_s: number | null;
  follows_s: number | null;
  asked_s: number | null;
  unknown_limiters: number;
  error: string | null;
}
export interface Status {
  version: string;
  file: string;
  attachments: {
    interface: string;
    hook: string;
    direction: string;
    attached: boolean;
    renamed?: string;
    link?: boolean;
  }[];
  plans: number;
  subscribers: number;
  set: number;
  /** Nothing is dropped or marked: the counts say what would be. */
  shadow: boolean;
  /** A change was made only in part. */
  unsettled: boolean;
  /** On DPDK: whether a process stands by for the daemon. */
  stands_by?: boolean;
  age_s: number;
  down: Counted;
  up: Counted;
  unlimited: { reason: string; packets: number }[];
  nodes?: Node[];
  pair?: Pair;
  /** All lines together; missing where no flows are watched. */
  line?: Line;
}
/** What happened to a subscriber, as the gate's log has it. */
export interface Happened {
  time: string;
  by: string;
  event: string;
  [what: string]: unknown;
}
interface Page {
  matched: number;
  age_s: number;
  subscribers: Subscriber[];
}

/** Bits per second. */
export interface Rates {
  down: number;
  up: number;
  downExcess: number;
  upExcess: number;
}
export interface Listed {
  subscriber: Subscriber;
  rates: Rates;
}
export interface QueueRates {
  direction: "down" | "up";
  number: number;
  queue: Queue;
  passed: number;
  excess: number;
}

export interface FlowRates {
  name: string;
  flow: Flow;
  down: number;
  up: number;
  excess: number;
}

/** The gate counts at most once a second, and most people do not read faster than this. */
const INTERVAL_MS = 2000;
/** Events of a subscriber that are shown. */
const EVENTS = 20;
/** Watched flows of a subscriber that are shown: those with the most bytes. */
const FLOWS = 50;
/** Points of time that are kept: five minutes. */
const KEPT = 150;
/** Seconds that are kept, and shown. */
export const SPAN = (KEPT * INTERVAL_MS) / 1000;
/** Subscribers that are asked for at a time: the most that the gate lists. Others are found by name. */
const MOST = 10_000;

/** Whether `tidegate web` forwards to a gate. */
export const known = serves("gate");
/** What the page is answered without the key. */
const NO_KEY = "the key is missing or wrong: open the address that `tidegate web` printed";

export const mayChange = signal(false);
/** What to do to be allowed to. */
export const mayNot = signal("");
export const status = signal<Status | null>(null);
export const listed = signal<Listed[]>([]);
export const matched = signal(0);
export const find = signal("");
export const chosen = computed(() => linkedSubscriber.value ?? null);
export const detail = signal<Subscriber | null>(null);
export const queues = signal<QueueRates[]>([]);
/** The watched flows of the subscriber, and how many it has; nothing where the gate watches none. */
export const flows = signal<{ matched: number; shown: FlowRates[] } | null>(null);
/** What happened to the subscriber, the latest first. */
export const happened = signal<Happened[]>([]);
export const trouble = signal<string | null>(null);
/** Seconds since the page looks at the gate. */
export const now = signal(0);
export const plans = computed(() =>
  [...new Set(listed.value.flatMap(({ subscriber }) => subscriber.plan ?? []))].sort(),
);

// What was answered of another subscriber is not shown for this one.
effect(() => {
  chosen.value;
  batch(() => {
    detail.value = null;
    queues.value = [];
    happened.value = [];
    flows.value = null;
  });
});

/** Rates over time, the latest KEPT of them. */
export class History {
  /** Times in seconds and the rates then, by turns: down, up, and what exceeds of both. */
  readonly points: number[] = [];
  private before: { at: number; down: Counted | null; up: Counted | null } | null = null;

  /** The second in which something was counted last. */
  get until(): number {
    return this.before?.at ?? 0;
  }

  get latest(): Rates {
    const [down = 0, up = 0, downExcess = 0, upExcess = 0] = this.points.slice(-4);
    return { down, up, downExcess, upExcess };
  }

  /** Takes in what was counted until a time in seconds. */
  add(at: number, down: Counted | null, up: Counted | null): Rates {
    const { before, points } = this;
    // The same counters as before, or nearly: the gate reads them once a second.
    if (before && at - before.at < 0.1) return this.latest;
    this.before = { at, down, up };
    if (!before) return this.latest;
    const rate = (now: Counted | null, then: Counted | null, what: "passed_bytes" | "excess_bytes") =>
      // Counters begin again where a subscriber is removed and added.
      now && then ? Math.max((now[what] - then[what]) * 8, 0) / (at - before.at) : 0;
    points.push(
      at,
      rate(down, before.down, "passed_bytes"),
      rate(up, before.up, "passed_bytes"),
      rate(down, before.down, "excess_bytes"),
      rate(up, before.up, "excess_bytes"),
    );
    if (points.length > 5 * KEPT) points.splice(0, 5);
    return this.latest;
  }

  /** One of the rates, as times and values by turns. */
  curve(which: number): number[] {
    const found: number[] = [];
    for (let i = 0; i < this.points.length; i += 5) {
      found.push(this.points[i] ?? 0, this.points[i + 1 + which] ?? 0);
    }
    return found;
  }
}

export let total = new History();
let histories = new Map<string, History>();
let before: { name: string; at: number; queues: QueueRates[] } | null = null;
let flowsBefore: { at: number; flows: Map<string, Flow> } = { at: 0, flows: new Map() };

/** What is known of a subscriber. */
export function historyOf(name: string): History {
  const found = histories.get(name) ?? new History();
  histories.set(name, found);
  return found;
}

/** Why an answer is none, and its status. */
class Refusal extends Error {
  constructor(
    why: string,
    readonly status: number,
  ) {
    super(why);
  }
}

async function ask<T>(path: string, method = "GET", body?: unknown): Promise<T> {
  const headers: Record<string, string> = { Authorization: `Bearer ${key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const request: RequestInit = { method, headers };
  if (body !== undefined) request.body = JSON.stringify(body);
  const answer = await fetch(`gate/${path}`, request);
  const told = (await answer.json()) as T & { error?: string };
  if (!answer.ok) throw new Refusal(told.error ?? `the gate answered ${answer.status}`, answer.status);
  return told;
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const path = (name: string) => `v1/subscribers/${encodeURIComponent(name)}`;
const seconds = () => performance.now() / 1e3;

function took(one: Subscriber): QueueRates[] {
  const at = seconds();
  const old = before?.name === one.name ? before : null;
  const all = (["down", "up"] as const).flatMap((direction) =>
    (one[direction]?.queues ?? []).map((queue, number) => {
      const then = old?.queues.find((other) => other.direction === direction && other.number === number);
      const rate = (what: "passed_bytes" | "excess_bytes") =>
        old && then ? Math.max((queue[what] - then.queue[what]) * 8, 0) / Math.max(at - old.at, 0.1) : 0;
      return { direction, number, queue, passed: rate("passed_bytes"), excess: rate("excess_bytes") };
    }),
  );
  before = { name: one.name, at, queues: all };
  return all;
}

/** A flow as a person names it. */
function named({ protocol, local, local_port, remote, remote_port }: Flow): string {
  const end = (address: string, port: number) =>
    port === 0 ? address : `${address.includes(":") ? `[${address}]` : address}:${port}`;
  return `${protocol} ${end(local, local_port)} – ${end(remote, remote_port)}`;
}

/** What the flows did since they were asked for last. One that is seen for the first time has no rate yet. */
function flowed(all: Flow[]): FlowRates[] {
  const at = seconds();
  const { at: then, flows: old } = flowsBefore;
  const rates = all.map((flow) => {
    const name = named(flow);
    const last = old.get(name);
    const rate = (...counts: ((one: Flow) => number)[]) =>
      last ? counts.reduce((sum, of) => sum + Math.max(of(flow) - of(last), 0) * 8, 0) / (at - then) : 0;
    return {
      name,
      flow,
      down: rate((one) => one.down.passed_bytes),
      up: rate((one) => one.up.passed_bytes),
      excess: rate(
        (one) => one.down.excess_bytes,
        (one) => one.up.excess_bytes,
      ),
    };
  });
  flowsBefore = { at, flows: new Map(rates.map(({ name, flow }) => [name, flow])) };
  return rates;
}

/** Takes in how the gate is, unless a later turn has begun meanwhile. */
async function look(mine: number): Promise<void> {
  const name = chosen.peek();
  const filter = find.peek();
  const query = `v1/subscribers?limit=${MOST}${filter ? `&name=${encodeURIComponent(filter)}` : ""}`;
  const watches = name !== null && status.peek()?.line !== undefined;
  // What the gate does not know is nothing. What fails for once leaves what was known before, and what a person types below it.
  let wrong: string | null = null;
  const without = (error: unknown) => {
    wrong = said(error);
    return error instanceof Refusal && error.status === 404 ? null : undefined;
  };
  const [gate, page, one, events, watched] = await Promise.all([
    ask<Status>("v1/status"),
    ask<Page>(query),
    name === null ? null : ask<Subscriber>(path(name)).catch(without),
    // A gate of an earlier version has none.
    name === null
      ? null
      : ask<Happened[]>(`v1/events?limit=${EVENTS}&subscriber=${encodeURIComponent(name)}`).catch(() => null),
    watches
      ? ask<{ matched: number; flows: Flow[] }>(`${path(name)}/flows?limit=${FLOWS}`).catch(without)
      : null,
  ]);
  if (mine !== turn) return;
  const at = seconds();
  for (const [other, history] of histories)
    if (other !== name && history.until < at - SPAN) histories.delete(other);
  total.add(at - gate.age_s, gate.down, gate.up);
  const found = page.subscribers.map((subscriber) => ({
    subscriber,
    rates: historyOf(subscriber.name).add(at - page.age_s, subscriber.down, subscriber.up),
  }));
  // The list has only those that were searched for, and not more than the gate lists. One subscriber's counters are read when they are asked for.
  if (one && !found.some(({ subscriber }) => subscriber.name === one.name))
    historyOf(one.name).add(at, one.down, one.up);
  batch(() => {
    status.value = gate;
    matched.value = page.matched;
    listed.value = found;
    now.value = at;
    trouble.value = null;
    if (name !== chosen.peek()) return;
    trouble.value = wrong;
    if (one !== undefined) {
      detail.value = one;
      queues.value = one ? took(one) : [];
    }
    if (events) happened.value = events.toReversed();
    if (watched !== undefined)
      flows.value = watched && { matched: watched.matched, shown: flowed(watched.flows) };
  });
}

let timer = 0;
let watching = false;
let turn = 0;

async function step(): Promise<void> {
  turn += 1;
  const mine = turn;
  try {
    const { change, why } = await ask<{ change: boolean; why?: string }>("access");
    if (mine !== turn) return;
    mayChange.value = change;
    mayNot.value = why ?? "";
    await look(mine);
  } catch (error) {
    if (mine === turn) trouble.value = said(error);
  }
  if (watching && mine === turn) timer = window.setTimeout(() => void step(), INTERVAL_MS);
}

/** Looks at the gate until the view is left. */
export function watch(): () => void {
  if (!known) return () => {};
  if (key === "") {
    trouble.value = NO_KEY;
    return () => {};
  }
  watching = true;
  total = new History();
  histories = new Map();
  void step();
  return () => {
    watching = false;
    turn += 1;
    clearTimeout(timer);
  };
}

function again(): void {
  clearTimeout(timer);
  void step();
}

export function choose(name: string | null): void {
  linkedSubscriber.value = name ?? undefined;
  history.pushState(null, "", format({ view: "gate", ...(name === null ? {} : { subscriber: name }) }));
  if (name !== null) again();
}

export function search(text: string): void {
  find.value = text;
  again();
}

export interface Change {
  plan?: string;
  down?: string;
  up?: string;
}

/** Changes a subscriber, or takes back its changes. Says what is wrong, if anything is. */
export async function change(name: string, what: Change | "reset"): Promise<string | null> {
  try {
    if (what === "reset") await ask(`${path(name)}/set`, "DELETE");
    else await ask(path(name), "PATCH", what);
  } catch (error) {
    return said(error);
  }
  again();
  return null;
}
