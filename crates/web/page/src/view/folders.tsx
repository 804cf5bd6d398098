import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { captures, listing, openListed, refresh } from "../state";
import { value } from "../units";

/** Lines that are shown; who has more captures finds them by name. */
const MOST = 200;

/** The captures in the folders that `tidegate web` was given. */
export function Folders() {
  useEffect(() => void refresh(), []);
  const find = useSignal("");
  if (!listing.value) return null;
  const { captures: all, left_out } = listing.value;
  const open = new Set(captures.value.map((one) => one.name));
  const wanted = find.value.toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted));
  const shown = found.slice(0, MOST);
  return (
    <section class="folders" aria-label="Captures in the folders">
      <div class="tools">
        <label>
          Find a capture{" "}
          <input
            type="search"
            value={find.value}
            onInput={(event) => {
              find.value = event.currentTarget.value;
            }}
          />
        </label>
        <span role="status" class="quiet">
          {found.length === shown.length
            ? `${found.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} captures`
            : `the first ${shown.length} of ${found.length.toLocaleString("en")} captures`}
        </span>
        <button type="button" disabled={shown.length === 0} onClick={() => void openListed(shown)}>
          Open these
        </button>
        <button type="button" onClick={() => void refresh()}>
          Look again
        </button>
      </div>
      {left_out.map((text) => (
        <p key={text} class="problem" role="status">
          {text}
        </p>
      ))}
      <div class="scroll" tabIndex={0} role="group" aria-label="Captures">
        <table>
          <thead>
            <tr>
              <th scope="col">Capture</th>
              <th scope="col">Size</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <tr key={one.number} class={open.has(one.name) ? "chosen" : ""}>
                <th scope="row">
                  <button type="button" onClick={() => void openListed([one])}>
                    {one.name}
                  </button>
                </th>
                <td>{value(one.bytes, "B")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
