import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { change, plans, type Subscriber, type Change as What } from "../gate";
import { value } from "../units";

/** Changes a subscriber's plan or rates, after a person has confirmed it. */
export function Change({ subscriber }: { subscriber: Subscriber }) {
  const { name } = subscriber;
  const plan = useSignal("");
  const down = useSignal("");
  const up = useSignal("");
  const asked = useSignal<What | "reset" | null>(null);
  const told = useSignal("");
  const dialog = useRef<HTMLDialogElement>(null);

  const ask = (what: What | "reset") => {
    asked.value = what;
    told.value = "";
    dialog.current?.showModal();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const what: What = {};
    if (plan.value.trim() !== "") what.plan = plan.value.trim();
    if (down.value.trim() !== "") what.down = down.value.trim();
    if (up.value.trim() !== "") what.up = up.value.trim();
    if (Object.keys(what).length === 0) told.value = "Choose a plan or write a rate first.";
    else ask(what);
  };
  const confirm = async () => {
    dialog.current?.close();
    const what = asked.value;
    if (!what) return;
    const wrong = await change(name, what);
    told.value = wrong ?? (what === "reset" ? "The file applies again." : "Changed.");
    if (wrong === null) for (const field of [plan, down, up]) field.value = "";
  };
  const rate = (limited: Subscriber["down"]) => value(limited?.rate ?? null, "bit/s");
  const what = asked.value;
  const lines =
    what === "reset"
      ? [
          "The plan, the rates and all other keys of the gate's file apply again.",
          subscriber.suspended && "It is suspended now. Afterwards it is suspended only if the file says so.",
          "Addresses that it got or lost stay as they are.",
        ]
      : [
          what?.plan && `Plan: ${subscriber.plan ?? "none"} becomes ${what.plan}`,
          what?.down && `Rate down: ${rate(subscriber.down)} becomes ${what.down}`,
          what?.up && `Rate up: ${rate(subscriber.up)} becomes ${what.up}`,
        ];
  const field = (title: string, of: typeof down, hint = "such as 50mbit", list?: string) => (
    <label>
      {title}
      <input
        value={of.value}
        placeholder={hint}
        list={list}
        size={18}
        onInput={(event) => {
          of.value = event.currentTarget.value;
        }}
      />
    </label>
  );
  return (
    <>
      <form class="change" onSubmit={submit}>
        {field("Plan", plan, "another plan's name", "plans")}
        <datalist id="plans">
          {plans.value.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {field("Rate down", down)}
        {field("Rate up", up)}
        <button type="submit">Change…</button>
        {subscriber.set && (
          <button type="button" onClick={() => ask("reset")}>
            Reset…
          </button>
        )}
        <span role="status">{told.value}</span>
      </form>
      <dialog ref={dialog} aria-labelledby="asked">
        <h3 id="asked">Change {name} now?</h3>
        <ul>{lines.map((line) => line && <li key={line}>{line}</li>)}</ul>
        <p class="quiet">
          The gate changes its limits at once.{what !== "reset" && " The change stays until it is reset."}
        </p>
        <div class="answers">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="button" class="primary" onClick={() => void confirm()}>
            Change
          </button>
        </div>
      </dialog>
    </>
  );
}
