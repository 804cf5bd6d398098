/** What keys do in pictures that have the focus, for those who see the page and use no pointer. */
export function Keys({ keys }: { keys: [string, string][] }) {
  return (
    <details class="keys quiet">
      <summary>Keys</summary>
      <dl>
        {keys.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** Those that all pictures over time have. */
export const MOVES: [string, string][] = [
  ["+ −", "zoom"],
  ["← → Home End", "move"],
  ["0", "show all"],
];

/** Those of pictures in which parts are measured. */
export const MEASURES: [string, string][] = [
  ["M", "measure what is shown"],
  ["Escape", "leave the selection"],
];
