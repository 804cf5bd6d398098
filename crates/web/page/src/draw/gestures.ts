// Zoom and pan by wheel, drag, touch and keys: all of them end in a new range of time.
import type { Range } from "./panel";

export interface Area {
  range: () => Range;
  whole: () => number;
  look: (from: number, to: number) => void;
  select: (range: Range | null) => void;
}

/** The range zoomed by a factor around a place, which is a share of its width. */
export function zoomed({ from, to }: Range, factor: number, share: number): Range {
  const width = (to - from) * factor;
  const center = from + (to - from) * share;
  return { from: center - width * share, to: center + width * (1 - share) };
}

export function moved({ from, to }: Range, share: number): Range {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

/** What a key does to the range; nothing for other keys. */
export function keyed(key: string, range: Range, whole: number): Range | null {
  switch (key) {
    case "+":
    case "=":
      return zoomed(range, 0.5, 0.5);
    case "-":
      return zoomed(range, 2, 0.5);
    case "ArrowLeft":
      return moved(range, -0.2);
    case "ArrowRight":
      return moved(range, 0.2);
    case "Home":
      return moved(range, -range.from / (range.to - range.from));
    case "End":
      return moved(range, (whole - range.to) / (range.to - range.from));
    case "0":
      return { from: 0, to: whole };
    default:
      return null;
  }
}

/** Listens on the part of a panel that the curves are in. With shift, a drag selects a part instead. */
export function listen(element: HTMLElement, area: Area): void {
  const pointers = new Map<number, number>();
  let selecting: number | null = null;
  const share = (event: MouseEvent) => {
    const box = element.getBoundingClientRect();
    return (event.clientX - box.left) / Math.max(box.width, 1);
  };
  const within = (at: number) => Math.min(Math.max(at, 0), 1);
  const apply = ({ from, to }: Range) => area.look(from, to);
  const time = (at: number) => {
    const { from, to } = area.range();
    return from + (to - from) * at;
  };
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (sideways) apply(moved(area.range(), (event.deltaX || event.deltaY) / 1000));
      else
        apply(
          zoomed(area.range(), Math.exp(Math.max(Math.min(event.deltaY, 200), -200) / 400), share(event)),
        );
    },
    { passive: false },
  );
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, share(event));
    selecting = event.shiftKey ? share(event) : null;
    if (!event.shiftKey) area.select(null);
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = share(event);
    if (selecting !== null) {
      // Beyond the panel there is no time.
      const [one, other] = [time(within(selecting)), time(within(now))];
      area.select({ from: Math.min(one, other), to: Math.max(one, other) });
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) apply(moved(area.range(), before - now));
    else {
      const [was, is] = [Math.abs(before - other), Math.abs(now - other)];
      if (is > 0.01) apply(zoomed(area.range(), Math.max(was, 0.01) / is, other));
    }
    pointers.set(event.pointerId, now);
  });
  const end = (event: PointerEvent) => {
    pointers.delete(event.pointerId);
    selecting = null;
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("dblclick", () => apply({ from: 0, to: area.whole() }));
}
