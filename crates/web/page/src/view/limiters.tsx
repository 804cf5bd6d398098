import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Limiter, Setting, Size } from "../engine/types";
import { limiters, sizes, turn } from "../lab";
import { value } from "../units";

/** Sliders have a hundred steps for each power of ten. */
const STEPS = 100;

/** How a setting is written in a scenario, with three digits. */
function written(number: number, unit: string): string {
  const size = number >= 1e6 ? 6 : 3;
  const text = String(Number((number / 10 ** size).toPrecision(3)));
  return unit === "B" ? `${text}${size === 6 ? "MB" : "kB"}` : `${text}${size === 6 ? "mbit" : "kbit"}`;
}

interface SliderProps {
  limiter: Limiter;
  setting: Setting;
  unit: "bit/s" | "B";
  /** Powers of ten. */
  range: [number, number];
}

function Slider({ limiter, setting, unit, range }: SliderProps) {
  const moved = useSignal<number | null>(null);
  const now = moved.value ?? setting.number;
  const shown = now === null ? (setting.text ?? "auto") : value(now, unit);
  const [low, high] = range;
  const position = now === null ? (low + high) / 2 : Math.log10(Math.max(now, 1));
  const number = (event: Event) => 10 ** (Number((event.currentTarget as HTMLInputElement).value) / STEPS);
  return (
    <label>
      {setting.key}: {setting.varied ? "varied by the sweep" : shown}
      <input
        type="range"
        min={low * STEPS}
        max={high * STEPS}
        step={1}
        value={position * STEPS}
        disabled={setting.varied}
        aria-valuetext={shown}
        onInput={(event) => {
          moved.value = number(event);
        }}
        onChange={(event) => {
          void turn(limiter, setting.key, written(number(event), unit)).then(() => {
            moved.value = null;
          });
        }}
      />
    </label>
  );
}

/** The longest round trip that is to be served well, in milliseconds. */
const longest = signal(50);

/** Depths that the literature has for such a limiter, to be taken by a click. */
function Sizes({ limiter }: { limiter: Limiter }) {
  const found = useSignal<Size[]>([]);
  const { kind, rate, depth } = limiter;
  const bps = rate.varied || depth.varied || limiter.kind_varied ? null : rate.number;
  const milliseconds = longest.value;
  useEffect(() => {
    let stale = false;
    found.value = [];
    if (bps !== null) {
      void sizes(kind, bps, milliseconds / 1e3).then((all) => {
        if (!stale) found.value = all;
      });
    }
    return () => {
      stale = true;
    };
  }, [kind, bps, milliseconds]);
  if (found.value.length === 0) return null;
  return (
    <div class="sizes">
      <label>
        {depth.key} for round trips up to (ms)
        <input
          type="number"
          min="1"
          max="60000"
          value={milliseconds}
          onChange={(event) => {
            const given = event.currentTarget.valueAsNumber;
            if (given > 0) longest.value = given;
          }}
        />
      </label>
      {found.value.map((size) => (
        <button
          key={size.for}
          type="button"
          onClick={() => void turn(limiter, depth.key, written(size.bytes, "B"))}
        >
          {value(size.bytes, "B")}: {size.for}
        </button>
      ))}
    </div>
  );
}

/** The scheme, the rate and the burst of each limiter, which change the text. */
export function Limiters() {
  return (
    <>
      {limiters.value.map((limiter) => (
        <fieldset key={limiter.name} class="limiter">
          <legend>{limiter.name}</legend>
          <label>
            scheme{limiter.kind_varied ? ": varied by the sweep" : ""}
            <select
              value={limiter.kind}
              disabled={limiter.kind_varied}
              onChange={(event) => void turn(limiter, "kind", event.currentTarget.value)}
            >
              {limiter.kinds.map((kind) => (
                <option key={kind} value={kind}>
                  {kind}
                </option>
              ))}
            </select>
          </label>
          <Slider limiter={limiter} setting={limiter.rate} unit="bit/s" range={[5, 10]} />
          <Slider limiter={limiter} setting={limiter.depth} unit="B" range={[3.2, 7]} />
          <Sizes limiter={limiter} />
        </fieldset>
      ))}
    </>
  );
}
