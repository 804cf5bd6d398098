import { effect, type ReadonlySignal, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { listen } from "../draw/gestures";
import { PanelPlot, type Range } from "../draw/panel";
import { svg } from "../draw/svg";
import type { PanelInfo, View } from "../engine/types";
import { save } from "../state";
import { theme } from "./theme";

/** The colours of the theme that is shown, as a canvas and a file need them. */
function colors(): (ink: string) => string {
  const known = new Map<string, string>();
  return (ink) => {
    let color = known.get(ink);
    if (color === undefined) {
      const probe = document.createElement("i");
      probe.style.color = `var(--${ink})`;
      document.body.append(probe);
      color = getComputedStyle(probe).color;
      probe.remove();
      known.set(ink, color);
    }
    return color;
  };
}

/** A picture with its title and its key above it, as it is saved. */
function titled(
  info: PanelInfo,
  picture: HTMLCanvasElement,
  color: (ink: string) => string,
): HTMLCanvasElement {
  const all = document.createElement("canvas");
  const pen = all.getContext("2d");
  const head = 48 * devicePixelRatio;
  all.width = picture.width;
  all.height = picture.height + head;
  if (!pen) return all;
  pen.fillStyle = color("page");
  pen.fillRect(0, 0, all.width, all.height);
  pen.drawImage(picture, 0, head);
  pen.scale(devicePixelRatio, devicePixelRatio);
  const write = (text: string, ink: string, x: number, y: number) => {
    pen.fillStyle = color(ink);
    pen.fillText(text, x, y);
    return x + pen.measureText(text).width;
  };
  pen.font = "bold 13px system-ui, sans-serif";
  write(info.title, "text", 12, 20);
  pen.font = "12px system-ui, sans-serif";
  let x = 12;
  for (const { label, ink } of info.curves) x = write(label, ink, x, 38) + 14;
  return all;
}

interface PanelProps {
  info: PanelInfo;
  /** The part that is shown, which all panels share. */
  range: ReadonlySignal<Range>;
  /** Moves it; absent where a person cannot. */
  look?: (from: number, to: number) => void;
  whole: number;
  numbers: (panel: string, view: View) => Promise<Float64Array>;
  /** Takes the error of a question for numbers; absent where they are at hand. */
  failed?: (error: unknown) => void;
  hover: (seconds: number | null) => void;
  select: (part: Range | null) => void;
  /** The part that is selected. */
  selected?: ReadonlySignal<Range | null>;
  /** The time of the packet that the keyboard points at. */
  pointed?: ReadonlySignal<number | null>;
  /** Changes when the panel's curves are others. */
  edition?: ReadonlySignal<unknown>;
  /** Whether a sentence led here. */
  led?: boolean;
  children?: ComponentChildren;
}

/** A panel with its title, its key and its files. */
export function Panel(props: PanelProps) {
  const {
    info,
    range,
    look,
    whole,
    numbers,
    failed,
    hover,
    select,
    selected,
    pointed,
    edition,
    led,
    children,
  } = props;
  const root = useRef<HTMLDivElement>(null);
  const shown = useRef<PanelPlot>(null);

  useEffect(() => {
    const element = root.current;
    if (!element || info.note) return;
    let color = colors();
    // A panel that is not over time shows all of its axis.
    const { axis } = info;
    const plot = new PanelPlot(info, element, axis ?? range.peek(), {
      numbers,
      failed: (error) => failed?.(error),
      color: (ink) => color(ink),
      hover: axis ? () => {} : hover,
    });
    shown.current = plot;
    const ends: (() => void)[] = [];
    // Panels that are scrolled away follow when they come back: frames are for those that are seen.
    const seen = signal(true);
    const watcher = new IntersectionObserver(
      (entries) => {
        seen.value = entries.at(-1)?.isIntersecting ?? true;
      },
      { rootMargin: "100px" },
    );
    watcher.observe(element);
    if (!axis) {
      if (look) listen(plot.plot.over, { range: () => range.peek(), whole: () => whole, look, select });
      plot.plot.over.addEventListener("pointerenter", () => plot.setOver(true));
      // A finger that is lifted stays where it was: its values are shown then.
      plot.plot.over.addEventListener("pointerleave", (event) => {
        if (event.pointerType !== "touch") plot.setOver(false);
      });
      ends.push(
        effect(() => {
          if (!seen.value) return;
          plot.look(range.value);
          if (selected) plot.mark(selected.value);
          const at = pointed?.value ?? null;
          if (at !== null) plot.pointAt(at);
        }),
        effect(() => {
          if (seen.value && edition?.value !== undefined) plot.refresh();
        }),
      );
    }
    const paint = () => {
      color = colors();
      plot.repaint();
    };
    const repaint = effect(() => {
      theme.value;
      paint();
    });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", paint);
    const observer = new ResizeObserver(() => plot.resize(Math.max(element.clientWidth, 200)));
    observer.observe(element);
    return () => {
      for (const end of ends) end();
      repaint();
      system.removeEventListener("change", paint);
      observer.disconnect();
      watcher.disconnect();
      plot.destroy();
    };
  }, [info]);

  const saveSvg = () => {
    const plot = shown.current;
    if (!plot) return;
    const { from, to } = info.axis ?? range.peek();
    const frame = { width: 960, height: plot.plot.height + 60, from, to, color: colors() };
    save(`${info.key}.svg`, new Blob([svg(info, plot.curves, frame)], { type: "image/svg+xml" }));
  };
  const savePng = () => {
    const plot = shown.current?.plot;
    if (!plot) return;
    const drawn = titled(info, plot.ctx.canvas, colors());
    drawn.toBlob((blob) => blob && save(`${info.key}.png`, blob), "image/png");
  };
  return (
    <figure class={`panel${led ? " led" : ""}${info.axis ? " spread" : ""}`} data-panel={info.key}>
      <figcaption>
        <b>{info.title}</b>
        {info.curves.map(({ key, label, ink, mark }) => (
          <span key={key} class={`key ${ink}`}>
            <i aria-hidden="true" class={mark} />
            {label}
          </span>
        ))}
        {children}
        {info.note ? (
          <span class="quiet">{info.note}</span>
        ) : (
          <span class="saves">
            <button type="button" onClick={saveSvg} aria-label={`Save ${info.title} as SVG`}>
              SVG
            </button>
            <button type="button" onClick={savePng} aria-label={`Save ${info.title} as PNG`}>
              PNG
            </button>
          </span>
        )}
      </figcaption>
      <div ref={root} />
    </figure>
  );
}
