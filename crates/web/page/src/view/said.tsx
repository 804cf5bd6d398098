// What is said below pictures: of the packet that a person points at, or of the part that is selected.
import { type Signal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Range } from "../draw/panel";

export interface Said {
  /** A packet, or what else there is to say. */
  said: Signal<string>;
  /** The part that is selected, and what happened in it. */
  part: Signal<Range | null>;
  measured: Signal<string | null>;
  hover: (at: number | null) => Promise<void>;
  select: (part: Range | null) => Promise<void>;
}

/** Asks for words about a time, and about a part of the time. Errors are handed to `failed`. */
export function useSaid(
  packet: (at: number) => Promise<string | null>,
  measure: (part: Range) => Promise<string | null>,
  failed: (error: unknown) => undefined,
): Said {
  const said = useSignal("");
  const part = useSignal<Range | null>(null);
  const measured = useSignal<string | null>(null);
  const pointing = useRef({ asked: false, at: null as number | null });

  const hover = async (at: number | null) => {
    const state = pointing.current;
    state.at = at;
    if (at === null) {
      said.value = "";
      return;
    }
    if (state.asked) return;
    state.asked = true;
    while (state.at !== null) {
      const now: number = state.at;
      const words = await packet(now).catch(failed);
      if (state.at !== null) said.value = words ?? "";
      if (state.at === now) break;
    }
    state.asked = false;
  };
  const select = async (wanted: Range | null) => {
    part.value = wanted;
    if (!wanted) {
      measured.value = null;
      return;
    }
    const found = await measure(wanted).catch(failed);
    if (part.value === wanted) measured.value = found ?? null;
  };
  return { said, part, measured, hover, select };
}

/** Saves the packets that are shown or selected, and measures them. */
export function Selection({
  state: { part, select },
  range,
  save,
}: {
  state: Said;
  range: Signal<Range>;
  save: (from: number, to: number) => void;
}) {
  return (
    <>
      <button
        type="button"
        onClick={() => {
          const { from, to } = part.peek() ?? range.peek();
          save(from, to);
        }}
      >
        {part.value ? "Selected packets as CSV" : "Shown packets as CSV"}
      </button>{" "}
      <button type="button" onClick={() => void select(part.value ? null : range.peek())}>
        {part.value ? "Leave the selection" : "Measure what is shown"}
      </button>
    </>
  );
}

/** The line itself, which stays in view. */
export function SaidLine({ state: { said, measured } }: { state: Said }) {
  return (
    <p class="said" role="status">
      {measured.value ?? said.value}
    </p>
  );
}
