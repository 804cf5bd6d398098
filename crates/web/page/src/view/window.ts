// Which lines of a long table are in view.

/** Lines that are asked for at a time. */
export const PART = 100;
/** Parts that are kept. */
export const MOST_PARTS = 100;
/** Browsers draw no taller element: Firefox ends at 17.8 million pixels. A longer table is scrolled in larger steps. */
export const TALLEST = 15_000_000;

/** Lines that are drawn above and below those in view. */
export const SPARE = 8;

/** The first line to draw, the one behind the last, and by how many pixels lines are drawn above their place. */
export function scrolled(view: { top: number; height: number; row: number; count: number }): {
  first: number;
  last: number;
  shift: number;
} {
  const whole = view.count * view.row;
  const drawn = Math.min(whole, TALLEST);
  const room = drawn - view.height;
  const share = room > 0 ? Math.min(Math.max(view.top / room, 0), 1) : 0;
  const at = whole > drawn ? share * (whole - view.height) : view.top;
  const first = Math.max(Math.floor(at / view.row) - SPARE, 0);
  const last = Math.min(Math.ceil((at + view.height) / view.row) + SPARE, view.count);
  return { first: Math.min(first, last), last, shift: at - view.top };
}

/** The parts that hold these lines. */
export function part(first: number, last: number): number[] {
  const parts: number[] = [];
  for (let number = Math.floor(first / PART); number * PART < last; number++) parts.push(number);
  return parts;
}
