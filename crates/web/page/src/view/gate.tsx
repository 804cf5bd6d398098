import "./gate.css";
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { PanelInfo } from "../engine/types";
import {
  choose,
  chosen,
  detail,
  find,
  type Happened,
  type History,
  happened,
  historyOf,
  known,
  type Listed,
  listed,
  matched,
  mayChange,
  mayNot,
  now,
  type Pair,
  queues,
  SPAN,
  type Status,
  type Subscriber,
  search,
  status,
  total,
  trouble,
  watch,
} from "../gate";
import { value } from "../units";
import { Change } from "./change";
import { Coded } from "./coded";
import { Flows, felt } from "./flows";
import { Heads } from "./heads";
import { Nodes } from "./nodes";
import { Panel } from "./panel";

/** Subscribers in the table: more are found by name. */
const SHOWN = 50;
/** Seconds that a picture shows at least. */
const LEAST = 60;

/** In the order of a history's rates. */
const CURVES: [string, string, string][] = [
  ["down", "to subscribers", "blue"],
  ["up", "from subscribers", "green"],
  ["downExcess", "exceeds the limit, to subscribers", "red"],
  ["upExcess", "exceeds the limit, from subscribers", "orange"],
];

function info(key: string, title: string): PanelInfo {
  const curves = CURVES.map(([key, label, ink]) => ({ key, label, ink, mark: "line" as const, points: 0 }));
  return { key, title, unit: "bit/s", note: null, axis: null, curves };
}

const TOTAL = info("gate", "Throughput of all subscribers");
const ONE = info("subscriber", "Throughput of the subscriber");

/** Rates as a panel takes them: the least and the greatest value, and for each curve its points. */
function packed(history: History): Float64Array {
  const curves = CURVES.map((_, which) => history.curve(which));
  const most = Math.max(...curves.flatMap((points) => points.filter((_, i) => i % 2 === 1)), 1e3);
  return new Float64Array([0, most * 1.05, ...curves.flatMap((points) => [points.length / 2, ...points])]);
}

function Rate({ info, history }: { info: PanelInfo; history: () => History }) {
  const range = useSignal({ from: 0, to: LEAST });
  useEffect(() => {
    const to = Math.max(now.value, LEAST);
    range.value = { from: Math.max(to - SPAN, 0), to };
  }, [now.value]);
  return (
    <Panel
      info={info}
      range={range}
      whole={SPAN}
      numbers={() => Promise.resolve(packed(history()))}
      hover={() => {}}
      select={() => {}}
    />
  );
}

/** How a gate follows the other one of its pair. */
function paired({ peer, age_s, follows_s, asked_s, unknown_limiters, error }: Pair): string {
  const ago = (seconds: number) => `${value(seconds, "s")} ago`;
  const said = [
    follows_s !== null && age_s !== null
      ? `follows ${peer} for ${value(follows_s, "s")}, knows it as of ${ago(age_s)}`
      : `DOES NOT FOLLOW ${peer}, ${age_s === null ? "never did" : `did ${ago(age_s)}`}: ${error ?? "it was not asked yet"}`,
    asked_s === null ? "it never asked this gate" : `it asked this gate ${ago(asked_s)}`,
  ];
  if (unknown_limiters > 0)
    said.push(
      `${unknown_limiters.toLocaleString("en")} of its limiters are unknown here or have other limits`,
    );
  return said.join("; ");
}

/** What keeps the gate from limiting as its file says, in the words of `tidegate gate status`. */
function alarms({ attachments, shadow, unsettled, stands_by }: Status): string[] {
  const said: string[] = [];
  if (attachments.length === 0) said.push("attached to no interface: nothing is limited");
  const dark = attachments.filter(({ link }) => link === false).map(({ interface: name }) => name);
  if (dark.length > 0) said.push(`no link at ${[...new Set(dark)].join(" and ")}: no packet passes`);
  if (stands_by === false) said.push("no process stands by: if the daemon dies, no packet passes");
  if (shadow) said.push("shadow: nothing is dropped or marked, the counts say what would be");
  if (unsettled) said.push("a change was made only in part: `tidegate gate reload` tries again");
  return said;
}

function Facts() {
  const gate = status.value;
  if (!gate) return null;
  const places = gate.attachments.map(
    ({ interface: name, hook, direction, attached, renamed }) =>
      `${name} ${direction} (${attached ? hook : "NOT ATTACHED"}${renamed ? `, the interface is named ${renamed} now: rename it in the file` : ""})`,
  );
  const missed = gate.unlimited.filter(({ packets }) => packets > 0);
  const facts: [string, string][] = [
    ["Interfaces", places.join(", ") || "none"],
    ["Subscribers", `${gate.subscribers.toLocaleString("en")} on ${gate.plans} plans, ${gate.set} set live`],
    [
      "Packets that no limiter saw",
      missed
        .map(({ reason, packets }) => `${packets.toLocaleString("en")} ${reason.replaceAll("_", " ")}`)
        .join(", ") || "none",
    ],
    ...(gate.pair ? [["Pair", paired(gate.pair)] satisfies [string, string]] : []),
    ...(gate.line ? [["All lines", felt(gate.line)] satisfies [string, string]] : []),
    ["File", `${gate.file}, tidegate ${gate.version}`],
  ];
  return (
    <>
      {alarms(gate).map((text) => (
        <p key={text} class="problem" role="alert">
          <Coded text={text} />
        </p>
      ))}
      <dl class="facts">
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

type Sort = "name" | "plan" | "down" | "up" | "excess";
const excess = ({ rates }: Listed) => rates.downExcess + rates.upExcess;
const ORDERS: Record<Sort, (one: Listed, other: Listed) => number> = {
  name: (one, other) => one.subscriber.name.localeCompare(other.subscriber.name),
  plan: (one, other) => (one.subscriber.plan ?? "").localeCompare(other.subscriber.plan ?? ""),
  down: (one, other) => other.rates.down - one.rates.down,
  up: (one, other) => other.rates.up - one.rates.up,
  excess: (one, other) => excess(other) - excess(one),
};
type Order = "ascending" | "descending";
const HEADS: [Sort, string, Order][] = [
  ["name", "subscriber", "ascending"],
  ["plan", "plan", "ascending"],
  ["down", "down", "descending"],
  ["up", "up", "descending"],
  ["excess", "exceeds the limit", "descending"],
];
const MARKS: Record<Order, string> = { ascending: " ▴", descending: " ▾" };

function Use({ name, rate, limit }: { name: string; rate: number; limit: number | null | undefined }) {
  return (
    <td>
      {value(rate, "bit/s")}
      {limit ? ` of ${value(limit, "bit/s")}` : ""}
      {limit ? <meter class="meter" aria-label={name} max={limit} value={Math.min(rate, limit)} /> : null}
    </td>
  );
}

function Heaviest() {
  const sort = useSignal<Sort>("down");
  const rows = listed.value.toSorted(ORDERS[sort.value]).slice(0, SHOWN);
  return (
    <section aria-label="Subscribers">
      <form class="tools" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Find{" "}
          <input
            type="search"
            value={find.value}
            onInput={(event) => search(event.currentTarget.value.trim())}
          />
        </label>
        <span role="status" class="quiet">
          {rows.length} of {matched.value.toLocaleString("en")} subscribers
        </span>
      </form>
      <div class="scroll" tabIndex={0} role="group" aria-label="Subscribers and their rates">
        <table>
          <thead>
            <tr>
              {HEADS.map(([name, title, order]) => (
                <th key={name} scope="col" aria-sort={sort.value === name ? order : "none"}>
                  <button
                    type="button"
                    onClick={() => {
                      sort.value = name;
                    }}
                  >
                    {title}
                    <span aria-hidden="true">{sort.value === name ? MARKS[order] : ""}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const { subscriber, rates } = row;
              const isChosen = chosen.value === subscriber.name;
              return (
                <tr key={subscriber.name} class={isChosen ? "chosen" : ""}>
                  <th scope="row">
                    <button
                      type="button"
                      aria-pressed={isChosen}
                      onClick={() => choose(isChosen ? null : subscriber.name)}
                    >
                      {subscriber.name}
                    </button>
                  </th>
                  <td>
                    {subscriber.plan ?? "none"}
                    {subscriber.set ? " (set live)" : ""}
                    {subscriber.suspended ? " (suspended)" : ""}
                  </td>
                  <Use name="share of the limit, down" rate={rates.down} limit={subscriber.down?.rate} />
                  <Use name="share of the limit, up" rate={rates.up} limit={subscriber.up?.rate} />
                  <td>{value(excess(row), "bit/s")}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Queues() {
  const used = queues.value.filter(
    ({ queue }) => queue.length > 0 || queue.passed_bytes > 0 || queue.excess_bytes > 0,
  );
  if (used.length === 0) return <p class="quiet">No flow used a queue of this subscriber.</p>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Queues">
      <table>
        <caption class="unseen">Queues: each has the flows that the gate put there</caption>
        <Heads titles={["queue", "passes", "exceeds", "in the queue", "magic bytes", "passed", "exceeded"]} />
        <tbody>
          {used.map(({ direction, number, queue, passed, excess }) => (
            <tr key={`${direction} ${number}`}>
              <th scope="row">
                {direction} {number}
              </th>
              <td>{value(passed, "bit/s")}</td>
              <td>{value(excess, "bit/s")}</td>
              <td>{value(queue.length, "B")}</td>
              <td>{value(queue.magic, "B")}</td>
              <td>{value(queue.passed_bytes, "B")}</td>
              <td>{value(queue.excess_bytes, "B")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The fields of an object as words, each behind its name. */
function pairs(fields: object): string[] {
  return Object.entries(fields).map(([key, found]) => {
    const isRate = typeof found === "number" && /^(down|up)$/.test(key);
    return `${key.replaceAll("_", " ")} ${isRate ? value(found, "bit/s") : words(found)}`;
  });
}

function words(found: unknown): string {
  if (Array.isArray(found)) return found.map(words).join(", ");
  return typeof found === "object" && found !== null ? pairs(found).join(", ") : String(found);
}

/** What a log's event says besides when, who and what. */
function details(event: Happened): string {
  const { time, by, event: what, subscriber, ...rest } = event;
  return pairs(rest).join("; ");
}

/** What happened to the subscriber, where the gate keeps a log. */
function Events() {
  if (happened.value.length === 0) return null;
  return (
    <section aria-labelledby="events">
      <h3 id="events">What changed lately</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label="Events">
        <table class="events">
          <Heads titles={["time", "event", "what", "by"]} />
          <tbody>
            {happened.value.map((event) => (
              <tr key={`${event.time} ${event.event}`}>
                <th scope="row">
                  <time dateTime={event.time}>{new Date(event.time).toLocaleString("en-GB")}</time>
                </th>
                <td>{event.event}</td>
                <td>{details(event)}</td>
                <td>{event.by}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const TURNS: Record<string, string> = { schedule: "the time of day", quota: "its volume" };

/** The plan of a subscriber and what it used, in sentences. */
function terms(one: Subscriber): string {
  const { plan, base_plan, turn, usage } = one;
  const named = plan === null ? "No plan" : `Plan ${plan}`;
  const said = [`${named}${one.set ? ", set live" : ""}.`];
  if (one.suspended) said.unshift("Suspended: all its packets are dropped.");
  if (turn)
    said.push(`It is in force instead of ${base_plan ?? "another"} because of ${TURNS[turn] ?? turn}.`);
  if (usage) {
    const { month, down_bytes, up_bytes, quota_bytes } = usage;
    const of = quota_bytes === null ? "" : ` of ${value(quota_bytes, "B")}`;
    said.push(`Since ${month} it used ${value(down_bytes + up_bytes, "B")}${of}.`);
  }
  for (const [to, way] of [
    ["to it", one.down],
    ["from it", one.up],
  ] as const)
    if (way?.boost) {
      const { saved_bytes, most_bytes } = way.boost;
      said.push(`Of its boost ${to}, ${value(saved_bytes, "B")} of ${value(most_bytes, "B")} are saved.`);
    }
  return said.join(" ");
}

function One({ name }: { name: string }) {
  const history = useMemo(() => () => historyOf(name), [name]);
  const one = detail.value?.name === name ? detail.value : null;
  return (
    <article class="subscriber" aria-labelledby="subscriber">
      <h2 id="subscriber">{name}</h2>
      {one && (
        <p class="quiet">
          {terms(one)} Recognised by {one.matches.join(", ")}.
          {one.parent ? ` It is below ${one.parent}.` : ""}
        </p>
      )}
      {one?.line && <p>{felt(one.line)}</p>}
      {one && mayChange.value && <Change key={name} subscriber={one} />}
      {!mayChange.value && (
        <p class="quiet">
          This page only shows the gate. To change limits here, <Coded text={mayNot.value} />.
        </p>
      )}
      <Rate key={name} info={ONE} history={history} />
      {one && <Queues />}
      {one && <Flows />}
      {one && <Events />}
    </article>
  );
}

/** A running gate, live. */
export function Gate() {
  useEffect(watch, []);
  if (!known) {
    return (
      <section class="welcome">
        <h2>What does the gate do now?</h2>
        <p>
          This view shows a running gate: rates, drops, and the heaviest subscribers. Start the page on the
          gate's machine with the address of the gate's API, and open the address that it prints:
        </p>
        <p>
          <code>tidegate web --gate unix:/run/tidegate/api.sock</code>
        </p>
      </section>
    );
  }
  return (
    <div class="gate">
      {trouble.value && (
        <p class="problem" role="alert">
          <Coded text={trouble.value} />
        </p>
      )}
      <Facts />
      {status.value && <Rate info={TOTAL} history={() => total} />}
      <Nodes />
      {status.value && <Heaviest />}
      {status.value && chosen.value !== null && <One name={chosen.value} />}
    </div>
  );
}
