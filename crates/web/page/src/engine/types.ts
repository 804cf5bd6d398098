// What the engine is asked and what it answers. crates/web/src/request.rs declares the questions.

export interface Place {
  capture: number;
  flow: number;
  segment: number;
  from_client: boolean;
}

export interface Arrangement {
  sort?: string;
  descending: boolean;
  find: string;
  cause?: string;
  all: boolean;
}

export interface View {
  from: number;
  to: number;
  columns: number;
  rows: number;
}

export type Request =
  | { ask: "read"; capture: number; name: string }
  | { ask: "forget"; capture: number }
  | { ask: "columns" }
  | ({ ask: "arrange" } & Arrangement)
  | { ask: "lines"; from: number; count: number }
  | { ask: "csv" }
  | ({ ask: "explain" } & Place)
  | { ask: "panel"; panel: string; view: View }
  | { ask: "packet"; at: number }
  | { ask: "packet-at"; place: number; lost: boolean }
  | { ask: "window"; seconds: number | null }
  | { ask: "packets"; from: number; to: number }
  | { ask: "measure"; from: number; to: number }
  | { ask: "compare"; captures: [number, number] }
  | { ask: "between-panel"; panel: string; view: View }
  | { ask: "between-packet"; at: number }
  | { ask: "between-measure"; from: number; to: number }
  | { ask: "between-packets"; from: number; to: number }
  | { ask: "summary" }
  | { ask: "summary-panel"; panel: string; view: View }
  | { ask: "examples" }
  | { ask: "check"; scenario: string }
  | { ask: "complete"; scenario: string; at: number }
  | { ask: "limiters"; scenario: string }
  | { ask: "turn"; scenario: string; number: number; key: string; value: string }
  | { ask: "sizes"; kind: string; bps: number; rtt_s: number }
  | { ask: "simulate"; scenario: string }
  | { ask: "point-panel"; point: number; panel: string; view: View }
  | { ask: "results" }
  | { ask: "capture"; name: string };

/** What the engine answers with: JSON or CSV, numbers, or a file. */
export type Answer = string | Float64Array | Uint8Array<ArrayBuffer>;

export interface Example {
  name: string;
  title: string;
  text: string;
}

export interface Checked {
  title: string;
  points: number;
  seeds: number;
  work_s: number;
}

/** What may be written at a place of a text, instead of a part of it. */
export interface Completion {
  from: number;
  to: number;
  items: { label: string; insert: string; doc: string }[];
}

/** What a limiter's key is set to. */
export interface Setting {
  key: string;
  text: string | null;
  number: number | null;
  /** Whether the sweep varies it. */
  varied: boolean;
}

export interface Limiter {
  number: number;
  name: string;
  kind: string;
  kind_varied: boolean;
  kinds: string[];
  rate: Setting;
  depth: Setting;
}

/** A depth for a limiter, and what it is good for. */
export interface Size {
  bytes: number;
  for: string;
}

/** A simulation that runs, and the curves of its panels. */
export interface Live {
  parameters: string;
  seed: number;
  now_s: number;
  seconds: number;
  panels: PanelInfo[];
  numbers: Float64Array[];
}

export interface Simulated {
  title: string;
  seconds: number;
  columns: { name: string; unit: string; doc: string }[];
  points: { values: Record<string, string | number | boolean | null>; panels: PanelInfo[] }[];
  captures: string[];
}

export interface ReadReport {
  name: string;
  packets: number;
  flows: number;
  transfers: number;
  problems: string[];
}

export interface Column {
  key: string;
  title: string;
  doc: string;
  number: boolean;
}

export interface Arranged {
  shown: number;
  all: number;
  short: number;
  least_packets: number;
  causes: Record<string, number>;
}

export interface Line extends Place {
  cause: string;
  cells: string[];
}

export interface CurveInfo {
  key: string;
  label: string;
  mark: "dots" | "crosses" | "line" | "steps" | "dashed" | "bars";
  ink: string;
  points: number;
}

/** What a panel is drawn over, if that is not time. */
export interface AxisInfo {
  title: string;
  unit: string;
  /** Whether places are logarithms to base 10. */
  log: boolean;
  from: number;
  to: number;
}

export interface PanelInfo {
  key: string;
  title: string;
  unit: string;
  axis: AxisInfo | null;
  note: string | null;
  curves: CurveInfo[];
}

/** Where in the picture one can see what a sentence says. */
export interface Moment {
  panel: string;
  from: number;
  to: number;
}

// docs/reference/explain.md describes the story; panels, moments and the window are the page's.
export interface Story {
  capture: string;
  transfer: {
    flow: number;
    segment: number;
    from: string;
    client: string;
    server: string;
    data_packets: number;
    lost_packets: number;
    retransmitted_packets: number;
    duration_s: number;
    delivered_bytes: number;
    goodput_bps: number | null;
    rtt_min_ms: number | null;
    rtt_median_ms: number | null;
    vantage: string;
  };
  verdict: string;
  headline: string;
  confidence: number | null;
  limit: {
    rate_bps: number | null;
    rate_low_bps: number | null;
    rate_high_bps: number | null;
    depth_bytes: number | null;
  };
  shares: { cause: string; share: number }[];
  evidence: string[];
  ruled_out: { cause: string; why: string }[];
  advice: { party: string; text: string }[];
  not_known: string[];
  panels: PanelInfo[];
  /** For each sentence of evidence, and each cause that is ruled out. */
  moments: { evidence: Moment[]; ruled_out: Moment[] };
  seconds: number;
  /** The length of the windows in which throughput is counted, unless one is chosen. */
  window_s: number;
}

/** What two captures of the same traffic say together. */
export interface Comparison {
  headline: string;
  /** The verdict's name, as in columns. */
  between: string;
  /** What was compared, a line for each. */
  captures: string[];
  /** How their clocks stand to each other. */
  clocks: string | null;
  ways: { heading: string; lines: { name: string; text: string }[] }[];
  panels: PanelInfo[];
  seconds: number;
}

/** A packet that passed the places of two captures, or did not. */
export interface Crossing {
  at_s: number;
  to_b: boolean;
  sender: string;
  receiver: string;
  bytes: number;
  in_flight: number;
  in_burst: number;
  fate: string;
  transit_s: number | null;
}

/** What happened between the places in a part of the time. */
export interface Crossed {
  packets: number;
  lost: number;
  bytes: number;
  bps: number | null;
  transit_median_s: number | null;
}

/** What all transfers that the table shows say together. */
export interface Summary {
  transfers: number;
  verdicts: { cause: string; transfers: number }[];
  rates: { bps: number; transfers: number }[];
  policed: number;
  panels: PanelInfo[];
}

export interface Packet {
  /** Its place in the order of time, from 0. */
  place: number;
  /** Its number among the data packets of its sender in the flow. */
  number: number;
  at_s: number;
  seq: number;
  bytes: number;
  in_flight: number;
  rtt_s: number | null;
  facts: string[];
}

export interface Measured {
  packets: number;
  lost: number;
  retransmissions: number;
  bytes: number;
  bps: number | null;
  rtt_median_s: number | null;
}
