import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import {
  awaited,
  captures,
  close,
  example,
  explaining,
  go,
  open,
  place,
  refuse,
  story,
  trouble,
  type View,
  view,
} from "../state";
import { Captures } from "./captures";
import { CompareForm, ComparisonView } from "./compare";
import { Folders } from "./folders";
import { Gate } from "./gate";
import { Lab } from "./lab";
import { Picture } from "./picture";
import { StoryView } from "./story";
import { Studies } from "./studies";
import { SummaryView } from "./summary";
import { Table } from "./table";
import { Theme } from "./theme";

/** Takes files that are dropped anywhere on the page. */
function useDrop(): void {
  useEffect(() => {
    const { classList } = document.body;
    const over = (event: DragEvent) => {
      event.preventDefault();
      classList.toggle("dropping", event.dataTransfer?.types.includes("Files") ?? false);
    };
    const leave = (event: DragEvent) => {
      // Only where the pointer leaves the page, not one of its parts.
      if (!event.relatedTarget) classList.remove("dropping");
    };
    const drop = (event: DragEvent) => {
      event.preventDefault();
      classList.remove("dropping");
      const items = [...(event.dataTransfer?.items ?? [])];
      const folder = items.map((item) => item.webkitGetAsEntry()).find((entry) => entry?.isDirectory);
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      go("analyse");
      if (folder) refuse(folder.name);
      else void open(files);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
}

function Choose() {
  const choose = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    void open([...(input.files ?? [])]);
    input.value = "";
  };
  return (
    <label class="button primary">
      Open captures
      <input type="file" multiple class="unseen" onChange={choose} />
    </label>
  );
}

/** Says which captures the address names, where they are not open. */
function Awaited() {
  const names = awaited.value;
  if (names.length === 0) return null;
  return (
    <p class="awaited">
      <output>
        The address of this page shows a view of <b>{names.join(" and ")}</b>. An address does not contain
        captures: open {names.length > 1 ? "them" : "it"} to see the view.
      </output>
    </p>
  );
}

/** What there is beside captures. */
const OTHERS: [View, string, string][] = [
  ["lab", "Lab", "Try rate limiters: senders and networks are simulated in this browser."],
  ["gate", "Gate", "Watch a gate that limits subscribers."],
  ["studies", "Studies", "See what papers measured, beside what Tidegate measures."],
];

function Welcome() {
  const waits = useSignal(false);
  const show = async () => {
    waits.value = true;
    await example();
    waits.value = false;
  };
  return (
    <section class="welcome">
      <h2>What limited this transfer?</h2>
      <Awaited />
      <p>
        Drop a packet capture here: pcap or pcapng, plain or compressed with gzip, xz or zstd. It is read in
        this browser and never leaves your machine.
      </p>
      <p class="choices">
        <Choose />{" "}
        <button type="button" disabled={waits.value} onClick={() => void show()}>
          Show an example
        </button>
      </p>
      <p class="quiet">
        Capture where the data is sent, with at least 128 bytes of each packet:{" "}
        <code>tcpdump -s 128 -w transfer.pcap tcp</code>
      </p>
      <dl>
        {OTHERS.map(([name, title, does]) => (
          <div key={name}>
            <dt>
              <button type="button" class="sentence" onClick={() => go(name)}>
                {title}
              </button>
            </dt>
            <dd class="quiet">{does}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const VIEWS: [View, string][] = [
  ["analyse", "Analyse"],
  ["lab", "Lab"],
  ["gate", "Gate"],
  ["studies", "Studies"],
];

function Views() {
  return (
    <nav aria-label="Views" class="views">
      {VIEWS.map(([name, title]) => (
        <button
          key={name}
          type="button"
          aria-current={view.value === name ? "page" : undefined}
          onClick={() => go(name)}
        >
          {title}
        </button>
      ))}
    </nav>
  );
}

/** How far the packets of a transfer are read, where that takes a while. */
function Explaining() {
  const capture = captures.value.find(({ number }) => number === explaining.value?.capture);
  if (!capture) return null;
  return (
    <p class="late quiet">
      Reading the packets of flow {place.value?.flow} in {capture.name}{" "}
      <progress aria-label="Reading packets" max={Math.max(capture.size, 1)} value={capture.read} />
    </p>
  );
}

function Analyse() {
  const some = captures.value.length > 0;
  return (
    <>
      {!some && <Welcome />}
      <Folders />
      {some && <Captures />}
      {some && <Awaited />}
      {some && <CompareForm />}
      <ComparisonView />
      {some && <SummaryView />}
      {some && <Table />}
      <Explaining />
      {story.value && (
        <article class="transfer" aria-labelledby="headline">
          <StoryView story={story.value} />
          <Picture story={story.value} />
        </article>
      )}
    </>
  );
}

function Shown() {
  if (view.value === "lab") return <Lab />;
  if (view.value === "gate") return <Gate />;
  if (view.value === "studies") return <Studies />;
  return <Analyse />;
}

export function App() {
  useDrop();
  const some = view.value === "analyse" && captures.value.length > 0;
  return (
    <>
      <header>
        <h1>Tidegate</h1>
        <Views />
        <nav aria-label="Captures">
          {some && <Choose />}
          {some && (
            <button type="button" onClick={close}>
              Close all
            </button>
          )}
          <Theme />
        </nav>
      </header>
      <main>
        {trouble.value && (
          <p class="trouble" role="alert">
            {trouble.value}
          </p>
        )}
        <Shown />
      </main>
    </>
  );
}
