import "./studies.css";
import { useEffect, useRef } from "preact/hooks";
import { use } from "../lab";
import { go } from "../state";
import { begin, choose, chosen, SCENARIOS, shown, trouble } from "../studies";

/** The study that a link of the text leads to. */
function led(event: Event): string | null {
  const link = (event.target as Element).closest("a");
  return new URLSearchParams(link?.getAttribute("href")?.replace(/^#/, "") ?? "").get("study");
}

/** A page for each study: the paper's values beside ours, with pictures. */
export function Studies() {
  const head = useRef<HTMLHeadingElement>(null);
  const text = useRef<HTMLDivElement>(null);
  const followed = useRef(false);
  const study = shown.value;
  useEffect(begin, []);
  useEffect(() => {
    // Whoever follows a link by the keyboard goes on at the head of what it led to.
    if (study && followed.current) head.current?.focus();
    followed.current = false;
  }, [study]);
  useEffect(() => {
    const follow = (event: Event) => {
      const name = led(event);
      if (name === null) return;
      event.preventDefault();
      followed.current = true;
      choose(name);
      scrollTo(0, 0);
    };
    const element = text.current;
    element?.addEventListener("click", follow);
    return () => element?.removeEventListener("click", follow);
  }, [study]);
  const play = (name: string) => {
    go("lab");
    void use(name);
  };
  const own = [...SCENARIOS.keys()].filter((name) => name.startsWith(`${chosen.value}/`));
  return (
    <article class="studies" aria-labelledby="study">
      {trouble.value && (
        <p class="problem" role="alert">
          {trouble.value}
        </p>
      )}
      {chosen.value !== null && (
        <button type="button" onClick={() => choose(null)}>
          All studies
        </button>
      )}
      {study && (
        <>
          <h2 id="study" ref={head} tabIndex={-1}>
            {study.title}
          </h2>
          {own.length > 0 && (
            <p>
              Try its scenarios in the lab:{" "}
              {own.map((name) => (
                <button key={name} type="button" onClick={() => play(name)}>
                  {name.split("/")[1]}
                </button>
              ))}
            </p>
          )}
          <div class="text" ref={text} dangerouslySetInnerHTML={{ __html: study.html }} />
          {study.printed && (
            <details>
              <summary>What the study's program prints</summary>
              <pre tabIndex={0}>{study.printed}</pre>
            </details>
          )}
        </>
      )}
    </article>
  );
}
