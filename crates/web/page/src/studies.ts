// The studies: what papers say beside what Tidegate measures. The texts are those of the folder `studies`; vite.studies.ts makes modules of them.
import { computed, effect, signal } from "@preact/signals";
import { linkedStudy } from "./state";
import { format } from "./url";

export interface Study {
  name: string;
  title: string;
  html: string;
}

const texts = import.meta.glob<{ default: Study }>("../../../../studies/*/README.md");
const index = import.meta.glob<{ default: Study }>("../../../../studies/README.md");
const printed = import.meta.glob<string>("../../../../studies/*/expected.txt", {
  query: "?raw",
  import: "default",
});
const scenarios = import.meta.glob<string>("../../../../studies/*/*.toml", {
  query: "?raw",
  import: "default",
});

/** The name of a file without the folders above those of the studies, and without its ending. */
const short = (path: string) => path.replace(/^.*\/studies\//, "").replace(/\.[a-z]+$/, "");

/** Scenarios by names such as `bcpqp-figure4/scenario`. */
export const SCENARIOS = new Map(Object.entries(scenarios).map(([path, load]) => [short(path), load]));

export const names = Object.keys(texts).map((path) => short(path).split("/")[0] ?? "");
/** The study that is shown; nothing for the list of all. */
export const chosen = computed(() => names.find((name) => name === linkedStudy.value) ?? null);
export const shown = signal<(Study & { printed: string | null }) | null>(null);
export const trouble = signal<string | null>(null);

async function load(name: string | null): Promise<void> {
  trouble.value = null;
  try {
    const of = <T>(files: Record<string, () => Promise<T>>, file: string) =>
      Object.entries(files).find(([path]) => path.endsWith(`/studies/${file}`))?.[1]();
    const study = await (name === null ? of(index, "README.md") : of(texts, `${name}/README.md`));
    const says = name === null ? null : ((await of(printed, `${name}/expected.txt`)) ?? null);
    if (chosen.value === name && study) shown.value = { ...study.default, printed: says };
  } catch (error) {
    trouble.value = error instanceof Error ? error.message : String(error);
  }
}

/** Shows a study, or the list of all. */
export function choose(name: string | null): void {
  linkedStudy.value = name ?? undefined;
  history.pushState(null, "", format({ view: "studies", ...(name ? { study: name } : {}) }));
}

/** Loads what is chosen, as long as the view is open. */
export function begin(): () => void {
  return effect(() => void load(chosen.value));
}
