// The lab: scenarios that are edited, run and compared.
import { computed, effect, signal } from "@preact/signals";
import { Engine } from "./engine/engine";
import type { Checked, Completion, Example, Limiter, Live, Simulated, Size } from "./engine/types";
import { go, linked, open, save, trouble } from "./state";
import { SCENARIOS } from "./studies";
import { format } from "./url";

export interface Run {
  number: number;
  scenario: string;
  result: Simulated;
  /** Each run keeps its curves in an engine of its own. */
  engine: Engine;
}

/** Runs that are kept beside each other. */
const MOST_RUNS = 4;

export const examples = signal<Example[]>([]);
export const text = signal("");
export const checked = signal<Checked | null>(null);
export const mistake = signal<string | null>(null);
/** How much of the simulation is done, while one runs. */
export const progress = signal<number | null>(null);
export const runs = signal<Run[]>([]);
/** What the simulation that runs has counted. */
export const live = signal<Live | null>(null);
/** The limiters of the scenario, for those who do not want to write. */
export const limiters = signal<Limiter[]>([]);

let checker: Engine | null = null;
let running: Engine | null = null;
let count = 0;
let waiting = 0;

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Texts that are known by a name: an example's, or a study's scenario. */
const named = new Map<string, string>();
/** The name of the text, until a person changes it. */
export const name = computed(() => {
  const now = text.value;
  return [...named].find(([, known]) => known === now)?.[0] ?? "";
});
/** For the lab that has not begun yet. */
let wanted: string | undefined;
/** The text when it was shown or linked last. One that differs was written here, and is nowhere else. */
let settled = "";
/** The scenario that the address names, where it is not shown since the text would be lost. */
export const withheld = signal<string | null>(null);

/** Loads the examples, and shows the one that the address names. */
export async function begin(): Promise<void> {
  if (checker) return;
  const engine = new Engine();
  checker = engine;
  try {
    const found = await engine.ask<Example[]>({ ask: "examples" });
    for (const { name, text } of found) named.set(name, text);
    examples.value = found;
    await show(wanted ?? found[0]?.name ?? "");
  } catch (error) {
    mistake.value = said(error);
    engine.end();
    checker = null;
  }
}

/** Shows a scenario: the one of this name, or this text. */
export async function show(scenario: string): Promise<void> {
  if (named.has(scenario) || SCENARIOS.has(scenario)) await use(scenario);
  else settle(scenario);
}

function settle(scenario: string): void {
  settled = scenario;
  text.value = scenario;
  withheld.value = null;
}

effect(() => {
  const scenario = linked.value;
  withheld.value = null;
  if (scenario === undefined) return;
  if (examples.peek().length === 0) wanted = scenario;
  else if (text.peek() === settled) void show(scenario);
  else withheld.value = scenario;
});

/** Takes a scenario by its name. */
export async function use(chosen: string): Promise<void> {
  wanted = chosen;
  const before = text.value;
  const load = SCENARIOS.get(chosen);
  if (load && !named.has(chosen)) named.set(chosen, await load());
  // Another one may have been chosen, or written, while its text came.
  if (wanted === chosen && text.value === before) settle(named.get(chosen) ?? before);
}

// The scenario is checked soon after the last change of its text.
effect(() => {
  const scenario = text.value;
  clearTimeout(waiting);
  if (scenario === "") return;
  waiting = window.setTimeout(() => void check(scenario), 150);
});

/** Asks the engine that has the text. What fails is said, and nothing is answered. */
async function asked<T>(question: (engine: Engine) => Promise<T>): Promise<T | null> {
  if (!checker) return null;
  try {
    return await question(checker);
  } catch (error) {
    mistake.value = said(error);
    return null;
  }
}

async function check(scenario: string): Promise<void> {
  let found: Checked | null = null;
  let wrong: string | null = null;
  try {
    found = (await checker?.ask<Checked>({ ask: "check", scenario })) ?? null;
  } catch (error) {
    wrong = said(error);
  }
  const limits = await asked((engine) => engine.ask<Limiter[]>({ ask: "limiters", scenario }));
  if (text.value !== scenario) return;
  limiters.value = limits ?? [];
  checked.value = found;
  // Where the limiters are not known, why is said already.
  if (limits || wrong) mistake.value = wrong;
}

/** What may be written at a place of the scenario. */
export async function complete(at: number): Promise<Completion | null> {
  const scenario = text.value;
  const found = await asked((engine) => engine.ask<Completion>({ ask: "complete", scenario, at }));
  return found && text.value === scenario ? found : null;
}

/** Sets a limiter's key in the text. */
export async function turn(limiter: Limiter, key: string, value: string): Promise<void> {
  const scenario = text.value;
  const { number } = limiter;
  const turned = await asked((engine) => engine.text({ ask: "turn", scenario, number, key, value }));
  if (turned !== null && text.value === scenario) text.value = turned;
}

/** How deep the literature has such a limiter, for round trips up to this long. */
export async function sizes(kind: string, bps: number, rtt_s: number): Promise<Size[]> {
  return (await asked((engine) => engine.ask<Size[]>({ ask: "sizes", kind, bps, rtt_s }))) ?? [];
}

export async function run(): Promise<void> {
  stop();
  const scenario = text.value;
  const engine = new Engine();
  running = engine;
  progress.value = 0;
  mistake.value = null;
  engine.onProgress = (done) => {
    if (running === engine) progress.value = done;
  };
  engine.onLive = (shown) => {
    if (running === engine) live.value = shown;
  };
  try {
    const result = await engine.ask<Simulated>({ ask: "simulate", scenario });
    count += 1;
    const all = [{ number: count, scenario, result, engine }, ...runs.value];
    for (const old of all.slice(MOST_RUNS)) old.engine.end();
    runs.value = all.slice(0, MOST_RUNS);
  } catch (error) {
    if (running === engine) mistake.value = said(error);
    engine.end();
  }
  if (running === engine) {
    running = null;
    progress.value = null;
    live.value = null;
  }
}

/** Ends the simulation that runs. */
export function stop(): void {
  running?.end();
  running = null;
  progress.value = null;
  live.value = null;
}

export function close(run: Run): void {
  run.engine.end();
  runs.value = runs.value.filter((one) => one !== run);
}

/** Says why a run did not answer, unless it was closed meanwhile. */
export function failed(run: Run, error: unknown): undefined {
  if (runs.value.includes(run)) trouble.value = said(error);
}

/** Saves a run's points with all their columns. */
export async function saveResults(run: Run): Promise<void> {
  const text = await run.engine.text({ ask: "results" }).catch((error) => failed(run, error));
  if (text !== undefined) save(`run-${run.number}.csv`, new Blob([text], { type: "text/csv" }));
}

/** Opens a capture that a tap of the simulation made. */
export async function analyse(run: Run, name: string): Promise<void> {
  const bytes = await run.engine.bytes({ ask: "capture", name }).catch((error) => failed(run, error));
  if (!bytes) return;
  go("analyse");
  await open([new File([bytes], `run-${run.number}-${name}`)]);
}

/** Puts the scenario into the address, which can then be sent to others, and copies it. Says what it did. */
export async function link(): Promise<string> {
  const scenario = name.value || text.value;
  settle(text.value);
  linked.value = scenario;
  history.replaceState(null, "", format({ view: "lab", scenario }));
  try {
    await navigator.clipboard.writeText(location.href);
    return "The link is copied.";
  } catch {
    // Browsers copy only where a person allows it, and from pages that are encrypted or of this machine.
    return "The link is in the address bar: copy it from there.";
  }
}
