// What `tidegate web` has beside the page, and the key that its address carried.

function remembered(): string {
  const fields = new URLSearchParams(location.hash.slice(1));
  const key = fields.get("key");
  try {
    if (key === null) return sessionStorage.getItem("key") ?? "";
    sessionStorage.setItem("key", key);
  } catch {
    // A browser may forbid storage; the key then lasts until the page is loaded again.
  }
  fields.delete("key");
  const hash = fields.toString();
  history.replaceState(null, "", hash === "" ? location.pathname + location.search : `#${hash}`);
  return key ?? "";
}

/** What lets this page ask `tidegate web` for captures and for a gate. */
export const key = remembered();

// Another key was pasted into an open page, as where `tidegate web` was started again.
addEventListener("hashchange", (event) => {
  const other = new URLSearchParams(location.hash.slice(1)).get("key");
  if (other === null) return;
  if (other === key) remembered();
  else {
    event.stopImmediatePropagation();
    location.reload();
  }
});

/** Whether the page comes from a `tidegate web` that has this: `captures` or `gate`. */
export function serves(what: "captures" | "gate"): boolean {
  const mark = document.querySelector<HTMLMetaElement>("meta[name=tidegate-serves]");
  return mark?.content.split(" ").includes(what) ?? false;
}
