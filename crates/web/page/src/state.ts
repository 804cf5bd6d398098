// What the page knows, and what a person can do with it.
import { batch, computed, signal } from "@preact/signals";
import { type Answers, Engine } from "./engine/engine";
import { type Listed, type Listing, list, Served } from "./engine/served";
import type {
  Arranged,
  Arrangement,
  Column,
  Comparison,
  Example,
  Line,
  Moment,
  Place,
  ReadReport,
  Request,
  Story,
} from "./engine/types";
import { serves } from "./key";
import { type Address, format, parse, unused } from "./url";

/** A larger capture takes longer to read in a browser than a person waits, and is left to `tidegate web`. */
export const MOST_BYTES = 4e9;

export interface Capture {
  number: number;
  name: string;
  size: number;
  read: number;
  report?: ReadReport;
  error?: string;
}

const worker = new Engine();
/** Reads captures in this browser, or asks `tidegate web`. */
export let engine: Answers = worker;
/** What `tidegate web` lists, if it was given folders. */
export const listing = signal<Listing | null>(null);
export const captures = signal<Capture[]>([]);
export const columns = signal<Column[]>([]);
export const arranged = signal<Arranged | null>(null);
/** Grows when the lines of the table change. */
export const edition = signal(0);
export const place = signal<Place | null>(null);
export const story = signal<Story | null>(null);
export const range = signal<{ from: number; to: number }>({ from: 0, to: 1 });
/** Seconds of the windows in which throughput is counted, and whether a person chose them. */
export const throughputWindow = signal<{ seconds: number; chosen: boolean }>({ seconds: 1, chosen: false });
/** The panel that a sentence led to; it changes with each click. */
export const led = signal<{ panel: string } | null>(null);
export type View = "analyse" | NonNullable<Address["view"]>;
export const view = signal<View>("analyse");
export const trouble = signal<string | null>(null);
export const busy = computed(() => captures.value.some((one) => !one.report && !one.error));

/** What the address names and the page has not shown yet, such as a transfer whose capture is not open. */
let address = parse(location.hash);
if (address.view) view.value = address.view;
export const arrangement = signal(arrangementOf(address));
/** The scenario that the address names: an example, or a text. */
export const linked = signal(address.scenario);
export const linkedStudy = signal(address.study);
export const linkedSubscriber = signal(address.subscriber);
/** The captures that the address names, as long as they are not open. */
export const awaited = signal(named());
let next = 0;
/** Grows when the captures are closed: what was asked for before is not waited for any more. */
let generation = 0;

/** An engine that failed has lost every capture. */
function lost(by: Answers, why: string): void {
  if (engine !== by) return;
  forget();
  trouble.value = why;
}

worker.onFailed = (why) => lost(worker, why);
worker.onRead = (number, read) => {
  change(number, { read });
  // For measurements; see browser/bench.mjs.
  if (captures.value.some((one) => one.number === number && one.size === read)) performance.mark("fetched");
};

function named(): string[] {
  const { capture, first, second } = address;
  return [...new Set([capture, first, second])].filter((name) => name !== undefined);
}

/** All of the arrangement that an address names: what it leaves out is as at first. */
function arrangementOf({ sort, descending, find, cause, all }: Address): Arrangement {
  return {
    ...(sort ? { sort } : {}),
    descending: descending ?? false,
    find: find ?? "",
    ...(cause ? { cause } : {}),
    all: all ?? false,
  };
}

/** Forgets what the address names: it is shown, or a person looks at something else. */
function arrived(): void {
  address = {};
  awaited.value = [];
}

// Another address was opened in this page, or a person went back.
addEventListener("hashchange", () => {
  address = parse(location.hash);
  batch(() => {
    trouble.value = null;
    view.value = address.view ?? "analyse";
    linked.value = address.scenario;
    linkedStudy.value = address.study;
    linkedSubscriber.value = address.subscriber;
    awaited.value = named();
    if (view.value === "analyse") arrangement.value = arrangementOf(address);
  });
  if (view.value === "analyse") void follow();
});

/** Shows what another address names, and opens what `tidegate web` has of it. */
async function follow(): Promise<void> {
  if (captures.value.length > 0) {
    await arrange({});
    await restore();
  }
  if (captures.value.length === 0 || awaited.value.length > 0) await refresh();
}

function change(number: number, what: Partial<Capture>): void {
  captures.value = captures.value.map((one) => (one.number === number ? { ...one, ...what } : one));
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Says what went wrong, as long as the captures are open that were when it was begun. */
function say(error: unknown, begun = generation): void {
  if (begun === generation) trouble.value = said(error);
}

/** Takes the error of a question. It is said unless what was asked about is not shown any more: its captures, or what `isShown` tells of. */
export function failing(isShown = () => true): (error: unknown) => undefined {
  const begun = generation;
  return (error) => {
    if (isShown()) say(error, begun);
  };
}

/** Lets what was answered be drawn, and asked for, before the engine is busy again. A page that is not seen draws no frames. */
function drawn(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, 100);
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
  });
}

/** What a person runs where a capture is too large for this page. */
function command(name: string): string {
  const plain = /^[\w.,+:@%/-]+$/.test(name) && !name.startsWith("-");
  return `tidegate web ${plain ? name : `'./${name.replaceAll("'", "'\\''")}'`}`;
}

/** Says how a folder is read that was dropped on the page. */
export function refuse(folder: string): void {
  trouble.value = `${folder} is a folder, which this page cannot read: drop the captures in it, or run beside it: ${command(folder)}`;
}

/** Captures of this browser and those of `tidegate web` are in different engines: only those of one are open. */
function use(wanted: Answers): void {
  if (engine === wanted) return;
  close();
  engine = wanted;
}

/** Reads captures that were dropped on the page or chosen, and adds their transfers to the table. */
export async function open(files: File[]): Promise<void> {
  use(worker);
  trouble.value = null;
  const begun = generation;
  for (const file of files) {
    const number = next++;
    const name = unused(
      file.name,
      captures.value.map((one) => one.name),
    );
    captures.value = [...captures.value, { number, name, size: file.size, read: 0 }];
    if (file.size >= MOST_BYTES) {
      const size = (file.size / 1e9).toFixed(1);
      const error = `${file.name}: too large for a browser (${size} GB). In its folder, run: ${command(file.name)}`;
      change(number, { error });
      continue;
    }
    worker.open(number, file);
    await read(number, name, file.size);
    if (begun !== generation) return;
  }
  await restore();
}

const served = serves("captures") ? new Served() : null;
if (served) {
  served.onRead = (number, read) => change(number, { read });
  served.onFailed = (why) => lost(served, why);
}

/** What two captures say together, and which they are. */
export const comparison = signal<{ of: [number, number]; told: Comparison } | null>(null);
export const comparing = signal(false);
/** The part of the comparison's pictures that is shown. */
export const between = signal<{ from: number; to: number }>({ from: 0, to: 1 });

/** Compares two captures of the same traffic that were taken at two places. */
export async function compare(a: number, b: number, view?: { from: number; to: number }): Promise<void> {
  trouble.value = null;
  comparing.value = true;
  const begun = generation;
  try {
    const told = await engine.ask<Comparison>({ ask: "compare", captures: [a, b] });
    if (begun !== generation) return;
    batch(() => {
      between.value = within(view?.from ?? 0, view?.to ?? told.seconds, told.seconds);
      comparison.value = { of: [a, b], told };
    });
    write();
  } catch (error) {
    say(error, begun);
  } finally {
    if (begun === generation) comparing.value = false;
  }
}

export function leaveComparison(): void {
  comparison.value = null;
  write();
}

/** Moves the view of the comparison's pictures. */
export function lookBetween(from: number, to: number): void {
  between.value = within(from, to, comparison.value?.told.seconds ?? 1);
  write();
}

/** Asks `tidegate web` which captures its folders hold. */
export async function refresh(): Promise<void> {
  if (!served) return;
  try {
    listing.value = await list();
    // The address may name some of them.
    const wanted = listing.value.captures.filter(({ name }) => awaited.value.includes(name));
    if (wanted.length > 0) await openListed(wanted);
  } catch (error) {
    say(error);
  }
}

/** Has `tidegate web` read captures, and adds their transfers to the table. */
export async function openListed(wanted: Listed[]): Promise<void> {
  if (!served) return;
  use(served);
  trouble.value = null;
  const begun = generation;
  try {
    // One that is open may have grown since it was listed.
    if (wanted.some(({ number }) => captures.value.some((one) => one.number === number)))
      listing.value = await list();
  } catch (error) {
    say(error, begun);
    return;
  }
  if (begun !== generation) return;
  for (const { number, name, bytes } of wanted) {
    const size = listing.value?.captures.find((one) => one.number === number)?.bytes ?? bytes;
    const known = captures.value.find((one) => one.number === number);
    if (known && !known.error && (!known.report || known.size === size)) {
      if (known.report && wanted.length === 1)
        trouble.value = `${name} is open already, and its size has not changed`;
      continue;
    }
    const fresh = { number, name, size, read: 0 };
    captures.value = [...captures.value.filter((one) => one !== known), fresh];
    if (known) putAway(number);
    await read(number, name, size, known !== undefined);
    if (begun !== generation) return;
  }
  await restore();
}

/** Shows nothing of a capture any more: it is read again. */
function putAway(number: number): void {
  if (place.value?.capture === number) leave();
  if (comparison.value?.of.includes(number)) leaveComparison();
}

/** Reads a capture into the table, in place of its lines from before where it is read again. */
async function read(number: number, name: string, size: number, again = false): Promise<void> {
  const mine = generation;
  if (captures.value.length > 1) await drawn();
  if (mine !== generation) return;
  const begun = performance.now();
  try {
    if (again) {
      await engine.ask({ ask: "forget", capture: number });
      await arrange({});
      if (mine !== generation) return;
    }
    const report = await engine.ask<ReadReport>({ ask: "read", capture: number, name });
    // For measurements; see browser/bench.mjs.
    performance.measure("read", { start: begun });
    if (mine !== generation) return;
    change(number, { report, read: size });
    await arrange({});
  } catch (error) {
    if (mine === generation) change(number, { error: said(error) });
  }
}

/** Ends the reading, and closes every capture. */
export function close(): void {
  engine.restart("stopped");
  forget();
}

function forget(): void {
  generation += 1;
  batch(() => {
    captures.value = [];
    arranged.value = null;
    place.value = null;
    story.value = null;
    comparison.value = null;
    explaining.value = null;
    comparing.value = false;
    trouble.value = null;
    edition.value += 1;
  });
  write();
}

let arranging: Promise<void> | null = null;

/** Sorts and filters the table. One question is on its way at a time: of those that come meanwhile, only the last one is asked. */
export function arrange(what: Partial<Arrangement>): Promise<void> {
  arrangement.value = { ...arrangement.value, ...what };
  arranging ??= askArranged();
  return arranging;
}

async function askArranged(): Promise<void> {
  for (let wanted: Arrangement | null = null; wanted !== arrangement.value; ) {
    wanted = arrangement.value;
    const begun = generation;
    try {
      if (columns.value.length === 0) columns.value = await engine.ask<Column[]>({ ask: "columns" });
      const found = await engine.ask<Arranged>({ ask: "arrange", ...wanted });
      if (arrangement.value !== wanted || begun !== generation) continue;
      batch(() => {
        arranged.value = found;
        edition.value += 1;
      });
      write();
    } catch (error) {
      say(error, begun);
    }
  }
  arranging = null;
}

export function lines(from: number, count: number): Promise<Line[]> {
  return engine.ask<Line[]>({ ask: "lines", from, count });
}

/** The transfer whose packets are being read: its capture is read once more for them. */
export const explaining = signal<Place | null>(null);

/** Shows the story and the picture of a transfer. */
export async function explain(where: Place, view?: { from: number; to: number }): Promise<void> {
  const { capture, flow, segment, from_client } = where;
  arrived();
  change(capture, { read: 0 });
  batch(() => {
    trouble.value = null;
    place.value = where;
    explaining.value = where;
  });
  const begun = generation;
  try {
    const told = await engine.ask<Story>({ ask: "explain", capture, flow, segment, from_client });
    if (place.value !== where) return;
    const { chosen, seconds } = throughputWindow.value;
    const counted = await engine.ask<{ window_s: number }>({
      ask: "window",
      seconds: chosen ? seconds : null,
    });
    if (place.value !== where) return;
    batch(() => {
      throughputWindow.value = { seconds: counted.window_s, chosen };
      led.value = null;
      range.value = within(view?.from ?? 0, view?.to ?? told.seconds, told.seconds);
      story.value = told;
    });
    write();
  } catch (error) {
    // The story that is shown would be another transfer's.
    if (place.value === where) leave();
    say(error, begun);
  } finally {
    if (explaining.value === where) explaining.value = null;
  }
}

export function leave(): void {
  batch(() => {
    place.value = null;
    story.value = null;
  });
  write();
}

/** Changes between the page's views. */
export function go(to: View): void {
  trouble.value = null;
  if (view.value === to) return;
  // A change of the last moment is written now: who comes back finds it.
  if (view.value === "analyse") history.replaceState(null, "", here());
  view.value = to;
  // The browser's button leads back to the view before, and not out of the page.
  history.pushState(null, "", to === "analyse" ? here() : format({ view: to }));
}

/** A part of a time, moved and narrowed until it lies within. */
export function within(from: number, to: number, whole: number): { from: number; to: number } {
  const width = Math.min(Math.max(to - from, 1e-6), whole);
  const left = Math.min(Math.max(from, 0), whole - width);
  return { from: left, to: left + width };
}

/** Moves the view of the picture, within the transfer. */
export function look(from: number, to: number): void {
  range.value = within(from, to, story.value?.seconds ?? 1);
  write();
}

/** Shows in the picture what a sentence says. */
export function lead(moment: Moment): void {
  led.value = { panel: moment.panel };
  look(moment.from, moment.to);
}

/** Counts throughput in windows of this length, or of one that suits the transfer. */
export async function countIn(seconds: number | null): Promise<void> {
  const begun = generation;
  try {
    const counted = await engine.ask<{ window_s: number }>({ ask: "window", seconds });
    throughputWindow.value = { seconds: counted.window_s, chosen: seconds !== null };
    write();
  } catch (error) {
    say(error, begun);
  }
}

async function saveTable(name: string, request: Request): Promise<void> {
  const begun = generation;
  try {
    save(name, new Blob([await engine.text(request)], { type: "text/csv" }));
  } catch (error) {
    say(error, begun);
  }
}

/** Saves the packets of a part of the transfer. */
export const savePackets = (from: number, to: number) =>
  saveTable("packets.csv", { ask: "packets", from, to });

/** Saves the packets of a part of the comparison. */
export const saveBetween = (from: number, to: number) =>
  saveTable("between.csv", { ask: "between-packets", from, to });

/** Saves the transfers that the table shows. */
export const saveCsv = () => saveTable("transfers.csv", { ask: "csv" });

/** Shows what the address names, once its capture is open. */
async function restore(): Promise<void> {
  const known = (name?: string) => captures.value.find((one) => one.report && one.name === name);
  const [first, second, capture] = [known(address.first), known(address.second), known(address.capture)];
  awaited.value = named().filter((name) => !known(name));
  const { flow, segment, side, from, to, window } = address;
  const view = from !== undefined && to !== undefined && from < to ? { from, to } : undefined;
  const both = address.capture !== undefined;
  if (first && second && first !== second) {
    const [a, b] = comparison.value?.of ?? [];
    if (a !== first.number || b !== second.number)
      await compare(first.number, second.number, both ? undefined : view);
    else if (view && !both) lookBetween(view.from, view.to);
    if (!both) arrived();
  }
  if (!capture || flow === undefined || segment === undefined) return;
  if (window) throughputWindow.value = { seconds: window, chosen: true };
  const where = { capture: capture.number, flow, segment, from_client: side === "client" };
  const shown = place.value;
  if (
    story.value &&
    shown?.capture === where.capture &&
    shown.flow === flow &&
    shown.segment === segment &&
    shown.from_client === where.from_client
  ) {
    arrived();
    if (view) look(view.from, view.to);
    return;
  }
  await explain(where, view);
}

/** The view as an address. */
function here(): string {
  const { sort, descending, find, cause, all } = arrangement.value;
  const table = { ...(sort ? { sort } : {}), descending, find, ...(cause ? { cause } : {}), all };
  // What the address names is not lost while its capture is not open.
  if (awaited.value.length > 0) return format({ ...address, ...table });
  const name = (number?: number) => captures.value.find((one) => one.number === number)?.name ?? "";
  const where = place.value;
  const [first, second] = comparison.value?.of ?? [];
  const part = where && story.value ? range.value : comparison.value && !where ? between.value : null;
  const hash = format({
    first: name(first),
    second: name(second),
    ...table,
    ...(where && name(where.capture)
      ? {
          capture: name(where.capture),
          flow: where.flow,
          segment: where.segment,
          side: where.from_client ? "client" : "server",
        }
      : {}),
    ...(part ?? {}),
    ...(where && story.value && throughputWindow.value.chosen
      ? { window: throughputWindow.value.seconds }
      : {}),
  });
  return hash || location.pathname + location.search;
}

let writing = 0;

/** Writes the view into the address, but not at every step of a movement: browsers allow a hundred changes in half a minute. */
function write(): void {
  clearTimeout(writing);
  writing = window.setTimeout(() => {
    if (view.value === "analyse") history.replaceState(null, "", here());
  }, 300);
}

/** Opens a capture for those who have none: a policed download, which is simulated in this browser. */
export async function example(): Promise<void> {
  const lab = new Engine();
  try {
    const all = await lab.ask<Example[]>({ ask: "examples" });
    const scenario = all.find(({ name }) => name === "capture")?.text ?? "";
    await lab.ask({ ask: "simulate", scenario });
    const bytes = await lab.bytes({ ask: "capture", name: "server.pcap" });
    await open([new File([bytes], "example.pcap")]);
    const [first] = await lines(0, 1);
    if (first) await explain(first);
  } catch (error) {
    say(error);
  }
  lab.end();
}

/** Saves a text or a picture as a file. */
export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
