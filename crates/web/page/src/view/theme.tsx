import { effect, signal } from "@preact/signals";

const CHOICES = ["auto", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

function stored(): Choice {
  try {
    return CHOICES.find((choice) => choice === localStorage.getItem("theme")) ?? "auto";
  } catch {
    return "auto";
  }
}

/** Light, dark, or as the system is set. */
export const theme = signal<Choice>(stored());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem("theme", theme.value);
  } catch {
    // A browser may forbid storage; the choice then lasts as long as the page.
  }
});

export function Theme() {
  const choose = (event: Event) => {
    const chosen = (event.currentTarget as HTMLSelectElement).value;
    theme.value = CHOICES.find((choice) => choice === chosen) ?? "auto";
  };
  return (
    <label>
      <span class="unseen">Colours</span>
      <select value={theme.value} onChange={choose}>
        {CHOICES.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}
