import type { AxisInfo } from "./engine/types";

const NONE = "-";

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

function scaled(value: number, unit: string): string {
  const steps = ["", "k", "M", "G", "T"];
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && step + 1 < steps.length) {
    rest /= 1000;
    step += 1;
  }
  return `${step === 0 && unit === "B" ? rest.toFixed(0) : digits(rest)} ${steps[step]}${unit}`;
}

export function time(seconds: number): string {
  const size = Math.abs(seconds);
  if (size < 0.0009995) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 0.9995) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

/** Packets are counted, in no larger unit. */
function counted(packets: number): string {
  const places = { maximumFractionDigits: Math.abs(packets) < 100 ? 2 : 0 };
  return `${packets.toLocaleString("en", places)} packets`;
}

/** A value in its unit: bytes, bits per second, seconds, or per cent. */
export function value(number: number | null, unit: string): string {
  if (number === null || Number.isNaN(number)) return NONE;
  if (unit === "%") return `${digits(number)} %`;
  if (unit === "packets") return counted(number);
  return unit === "s" ? time(number) : scaled(number, unit);
}

/** A number of things, in words. */
export function plural(count: number, one: string): string {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}

/** Names for ticks of an axis, all in the unit of the greatest. */
export function ticks(values: number[], unit: string): string[] {
  const most = Math.max(...values.map(Math.abs), 0);
  // Enough digits to tell a tick from the next one, also where a person has zoomed in.
  const step = Math.min(...values.slice(1).map((v, i) => Math.abs(v - (values[i] ?? v))));
  const digits = step > 0 && Number.isFinite(step) ? 3 + Math.ceil(Math.log10(most / step)) : 0;
  const told = (v: number) => Number(v.toPrecision(Math.min(Math.max(digits, 6), 15)));
  if (unit === "%") return values.map((v) => `${told(v)} %`);
  if (unit === "packets") return values.map((v) => `${told(v).toLocaleString("en")} ${unit}`);
  const units: [number, string][] =
    unit === "s"
      ? [
          [1, "s"],
          [1e-3, "ms"],
          [1e-6, "µs"],
        ]
      : [
          [1e12, `T${unit}`],
          [1e9, `G${unit}`],
          [1e6, `M${unit}`],
          [1e3, `k${unit}`],
          [1, unit],
        ];
  const [scale, name] = units.find(([scale]) => most >= scale) ?? units[units.length - 1] ?? [1, unit];
  return values.map((v) => `${told(v / scale)} ${name}`);
}

/** A place on an axis from left to right, in words. */
export function place(at: number, axis: AxisInfo | null): string {
  if (!axis) return `${at.toFixed(6)} s`;
  return value(axis.log ? 10 ** at : at, axis.unit);
}

/** Names for ticks of an axis from left to right: of time, or of what a panel is drawn over. */
export function places(values: number[], axis: AxisInfo | null): string[] {
  if (!axis) return ticks(values, "s");
  if (!axis.log) return ticks(values, axis.unit);
  return values.map((v) => {
    const value = Number((10 ** v).toPrecision(6));
    return axis.unit === "s" ? (ticks([value], "s")[0] ?? "") : String(value);
  });
}
