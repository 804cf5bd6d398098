import type { Moment, Story } from "../engine/types";
import { lead, leave } from "../state";
import { plural, value } from "../units";
import { Coded } from "./coded";

interface Item {
  name?: string;
  text: string;
  /** Where the picture shows it. */
  moment?: Moment | undefined;
}

function List({ title, items }: { title: string; items: Item[] }) {
  if (items.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul>
        {items.map(({ name, text, moment }) => {
          const said = (
            <>
              {name && <b>{name}: </b>}
              <Coded text={text} />
            </>
          );
          return (
            <li key={`${name} ${text}`}>
              {moment ? (
                <button
                  type="button"
                  class="sentence"
                  title="Show it in the picture"
                  onClick={() => lead(moment)}
                >
                  {said}
                </button>
              ) : (
                said
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** What `tidegate explain` says of the transfer, in the same sentences. */
export function StoryView({ story }: { story: Story }) {
  const { transfer, limit } = story;
  const milliseconds = (ms: number | null) => value(ms === null ? null : ms / 1e3, "s");
  const interval =
    limit.rate_low_bps !== null
      ? ` (${value(limit.rate_low_bps, "bit/s")} to ${value(limit.rate_high_bps, "bit/s")})`
      : "";
  const figures: [string, string][] = [
    ["Client", transfer.client],
    ["Server", transfer.server],
    ["Sent by", transfer.from],
    ["Delivered", `${value(transfer.delivered_bytes, "B")} in ${value(transfer.duration_s, "s")}`],
    ["Goodput", value(transfer.goodput_bps, "bit/s")],
    [
      "Packets",
      `${transfer.data_packets.toLocaleString("en")}, ${transfer.lost_packets.toLocaleString("en")} lost, ${plural(transfer.retransmitted_packets, "retransmission")}`,
    ],
    [
      "Round trip",
      `${milliseconds(transfer.rtt_min_ms)} minimum, ${milliseconds(transfer.rtt_median_ms)} median`,
    ],
    ["Captured at", transfer.vantage],
  ];
  if (limit.rate_bps !== null) figures.push(["Limit on the link", value(limit.rate_bps, "bit/s") + interval]);
  if (limit.depth_bytes !== null) figures.push(["Depth", value(limit.depth_bytes, "B")]);
  return (
    <div class="story">
      <p class="quiet">
        Flow {transfer.flow}, segment {transfer.segment} of {story.capture}{" "}
        <button type="button" onClick={leave}>
          Close
        </button>
      </p>
      <h2 id="headline" class={`cause ${story.verdict}`}>
        {story.headline}
      </h2>
      <div class="parts">
        <List title="What to do" items={story.advice.map(({ party, text }) => ({ name: party, text }))} />
        <List
          title="What limited it, by time"
          items={story.shares
            .filter(({ share }) => share >= 0.0005)
            .map(({ cause, share }) => ({
              name: cause,
              text: `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`,
            }))}
        />
        <List
          title="Evidence"
          items={story.evidence.map((text, i) => ({ text, moment: story.moments.evidence[i] }))}
        />
        <List
          title="Why nothing else"
          items={story.ruled_out.map(({ cause, why }, i) => ({
            name: `not ${cause}`,
            text: why,
            moment: story.moments.ruled_out[i],
          }))}
        />
        <List title="What the capture does not tell" items={story.not_known.map((text) => ({ text }))} />
        <section>
          <h3>Figures</h3>
          <dl>
            {figures.map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </div>
  );
}
