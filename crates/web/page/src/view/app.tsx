import { useEffect } from "preact/hooks";
import { captures, close, go, open, story, trouble, type View, view } from "../state";
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
    const over = (event: DragEvent) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length > 0) void open(files);
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
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

function Welcome() {
  return (
    <section class="welcome">
      <h2>What limited this transfer?</h2>
      <p>
        Drop a packet capture here: pcap or pcapng, plain or compressed with gzip, xz or zstd. It is read in
        this browser and never leaves your machine.
      </p>
      <Choose />
      <p class="quiet">
        Capture where the data is sent, with at least 128 bytes of each packet:{" "}
        <code>tcpdump -s 128 -w transfer.pcap tcp</code>
      </p>
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

function Analyse() {
  const some = captures.value.length > 0;
  return (
    <>
      {!some && <Welcome />}
      <Folders />
      {some && <Captures />}
      {some && <CompareForm />}
      <ComparisonView />
      {some && <SummaryView />}
      {some && <Table />}
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
