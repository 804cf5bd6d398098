import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { keyed } from "../draw/gestures";
import type { Range } from "../draw/panel";
import type { Measured, Packet, Story, View } from "../engine/types";
import {
  countIn,
  engine,
  explaining,
  failing,
  led,
  look,
  range,
  savePackets,
  story as shown,
  throughputWindow,
} from "../state";
import { plural, time, value } from "../units";
import { Keys, MEASURES, MOVES } from "./keys";
import { Panel } from "./panel";
import { SaidLine, Selection, useSaid } from "./said";

function words(packet: Packet): string {
  const facts = [`${packet.bytes} B at byte ${packet.seq}`, `${value(packet.in_flight, "B")} in flight`];
  if (packet.rtt_s !== null) facts.push(`RTT ${time(packet.rtt_s)}`);
  return `Packet ${packet.number} at ${packet.at_s.toFixed(6)} s: ${[...facts, ...packet.facts].join(", ")}`;
}

function measured(part: Range, found: Measured): string {
  const rtt = found.rtt_median_s === null ? "" : `, median RTT ${time(found.rtt_median_s)}`;
  return `${time(part.to - part.from)} selected: ${plural(found.packets, "packet")}, ${value(found.bytes, "B")}, ${value(found.bps, "bit/s")} of payload, ${found.lost.toLocaleString("en")} lost, ${plural(found.retransmissions, "retransmission")}${rtt}`;
}

const numbers = (panel: string, view: View) => engine.numbers({ ask: "panel", panel, view });

/** The length of the windows in which throughput and goodput are counted. */
function Windows() {
  const { seconds } = throughputWindow.value;
  const choose = (event: Event) => {
    const text = (event.currentTarget as HTMLInputElement).value;
    void countIn(text.trim() === "" ? null : Number(text) / 1e3);
  };
  return (
    <label>
      in windows of{" "}
      <input
        class="window"
        type="number"
        min="0.001"
        step="any"
        title="Leave it empty for a length that suits the transfer"
        value={Number((seconds * 1e3).toPrecision(4))}
        onChange={choose}
        onKeyDown={(event) => event.stopPropagation()}
      />{" "}
      ms
    </label>
  );
}

/** The part that is shown. It changes with each frame of a movement, so nothing else is drawn with it. */
function Shown() {
  const { from, to } = range.value;
  return (
    <>
      {from.toFixed(6)} s to {to.toFixed(6)} s.
    </>
  );
}

/** The panels of a transfer: those over one axis of time, and distributions. */
export function Picture({ story }: { story: Story }) {
  // While another transfer is explained, the engine may know that one already.
  const failed = failing(() => shown.value === story && !explaining.value);
  const state = useSaid(
    async (at) => {
      const packet = await engine.ask<Packet | null>({ ask: "packet", at });
      return packet && words(packet);
    },
    async (part) => measured(part, await engine.ask<Measured>({ ask: "measure", ...part })),
    failed,
  );
  const { said, part, hover, select } = state;
  const pointed = useSignal<number | null>(null);
  const packet = useRef(-1);
  const root = useRef<HTMLElement>(null);

  /** Goes to a packet, and says what became of it. */
  const step = async (place: number, lost: boolean) => {
    const found = await engine
      .ask<Packet | null>({ ask: "packet-at", place: Math.max(place, 0), lost })
      .catch(failed);
    if (!found) {
      said.value = found === null && lost ? "No later packet was lost." : "";
      return;
    }
    packet.current = found.place;
    await select(null);
    const { from, to } = range.peek();
    if (found.at_s < from || found.at_s > to) {
      look(found.at_s - (to - from) / 2, found.at_s + (to - from) / 2);
    }
    pointed.value = found.at_s;
    said.value = words(found);
  };

  useEffect(() => {
    packet.current = -1;
    pointed.value = null;
    void select(null);
    said.value = "";
  }, [story]);

  // A sentence led here: the panel comes into view, and takes the keys. At once, or a key that follows is lost.
  const target = led.value;
  useLayoutEffect(() => {
    if (!target) return;
    const panel = root.current?.querySelector(`[data-panel="${target.panel}"]`);
    panel?.scrollIntoView({ block: "center" });
    root.current?.focus({ preventScroll: true });
    const { from, to } = range.peek();
    const title = story.panels.find(({ key }) => key === target.panel)?.title;
    state.measured.value = null;
    said.value = `${title}, ${from.toFixed(3)} s to ${to.toFixed(3)} s`;
  }, [target]);

  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    switch (event.key) {
      case "m":
        void select(range.peek());
        return;
      case "Escape":
        void select(null);
        return;
      case "n":
        void step(packet.current + 1, false);
        return;
      case "p":
        void step(packet.current - 1, false);
        return;
      case "l":
        void step(packet.current + 1, true);
        return;
    }
    const next = keyed(event.key, range.peek(), story.seconds);
    if (!next) return;
    event.preventDefault();
    look(next.from, next.to);
  };

  const panels = useMemo(() => {
    const over = (spread: boolean) => story.panels.filter(({ axis }) => (axis !== null) === spread);
    return { time: over(false), spread: over(true) };
  }, [story]);
  const panel = (info: Story["panels"][number]) => (
    <Panel
      key={`${story.capture} ${story.transfer.flow} ${story.transfer.segment} ${story.transfer.from} ${info.key}`}
      info={info}
      range={range}
      look={look}
      whole={story.seconds}
      numbers={numbers}
      failed={failed}
      hover={(at) => void hover(at)}
      select={(part) => void select(part)}
      selected={part}
      pointed={pointed}
      {...(info.key === "throughput" ? { edition: throughputWindow } : {})}
      led={led.value?.panel === info.key}
    >
      {info.key === "throughput" && <Windows />}
    </Panel>
  );
  return (
    <section
      ref={root}
      class="picture"
      tabIndex={0}
      role="group"
      aria-label="Picture of the transfer. Plus and minus zoom, arrow keys move, 0 shows all, M measures what is shown, N and P go to the next and the previous packet, L to the next lost one."
      onKeyDown={key}
    >
      <p class="quiet">
        <Shown /> The wheel zooms, dragging moves, dragging with Shift measures, a double click shows all.{" "}
        <Selection state={state} range={range} save={(from, to) => void savePackets(from, to)} />
      </p>
      <Keys keys={[...MOVES, ...MEASURES, ["N P", "next and previous packet"], ["L", "next lost packet"]]} />
      {panels.time.map(panel)}
      <SaidLine state={state} />
      <div class="spreads">{panels.spread.map(panel)}</div>
    </section>
  );
}
