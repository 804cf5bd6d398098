import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Completion } from "../engine/types";
import { complete, runs, text } from "../lab";

/** The line and the column of a place in a text. */
function placed(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at);
  const begin = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length - 1, column: at - begin };
}

/** The scenario's text, with what may be written at the caret: keys of its table, and values of a key. */
export function Editor() {
  const area = useRef<HTMLTextAreaElement>(null);
  const offered = useSignal<Completion | null>(null);
  const active = useSignal(0);
  const scroll = useSignal({ left: 0, top: 0 });

  const offer = async (asked: boolean) => {
    const at = area.current?.selectionStart ?? 0;
    const found = await complete(at);
    // Where nothing was begun, suggestions come only if they are asked for.
    const isOfUse = found && found.items.length > 0 && (asked || found.to > found.from);
    offered.value = isOfUse && area.current?.selectionStart === at ? found : null;
    active.value = 0;
  };
  const take = (index: number) => {
    const [element, found] = [area.current, offered.value];
    const item = found?.items[index];
    if (!element || !found || !item) return;
    offered.value = null;
    element.setRangeText(item.insert, found.from, found.to, "end");
    text.value = element.value;
    element.focus();
    // A value follows a key.
    if (item.insert.endsWith("= ")) void offer(true);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      void offer(true);
      return;
    }
    const count = offered.value?.items.length ?? 0;
    if (count === 0) return;
    if (event.key === "ArrowDown") active.value = (active.value + 1) % count;
    else if (event.key === "ArrowUp") active.value = (active.value + count - 1) % count;
    else if (event.key === "Enter" || event.key === "Tab") take(active.value);
    else if (event.key === "Escape") offered.value = null;
    else {
      // The caret leaves the place.
      if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) offered.value = null;
      return;
    }
    event.preventDefault();
  };

  const found = offered.value;
  const place = placed(text.value, found?.from ?? 0);
  return (
    <div class="editor">
      <label>
        <span class="unseen">Scenario in TOML. Control and space suggest what may be written.</span>
        <textarea
          ref={area}
          spellcheck={false}
          wrap="off"
          rows={runs.value.length > 1 ? 12 : 28}
          value={text.value}
          aria-autocomplete="list"
          aria-controls="offered"
          aria-activedescendant={found ? `offered-${active.value}` : undefined}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            void offer(false);
          }}
          onKeyDown={key}
          onClick={() => {
            offered.value = null;
          }}
          onBlur={() => {
            offered.value = null;
          }}
          onScroll={({ currentTarget: { scrollLeft, scrollTop } }) => {
            scroll.value = { left: scrollLeft, top: scrollTop };
          }}
        />
      </label>
      <div
        id="offered"
        role="listbox"
        aria-label="What may be written here"
        hidden={!found}
        style={{
          left: `calc(${place.column}ch + 9px - ${scroll.value.left}px)`,
          top: `calc(${place.line + 1} * 1.45em + 9px - ${scroll.value.top}px)`,
        }}
      >
        {found?.items.map(({ label, doc }, index) => (
          <div
            key={label}
            id={`offered-${index}`}
            role="option"
            aria-selected={index === active.value}
            ref={(element) => {
              if (index === active.value) element?.scrollIntoView({ block: "nearest" });
            }}
            onPointerDown={(event) => {
              // The text keeps the focus.
              event.preventDefault();
              take(index);
            }}
          >
            <b>{label}</b> <span class="quiet">{doc}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
