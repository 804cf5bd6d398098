// The processes of a browser, and what processor time they took. Firefox does not tell which they are.
import { readdirSync, readFileSync } from "node:fs";
import { FIREFOX } from "./serve.mjs";

export const sum = (values) => values.reduce((all, one) => all + one, 0);

/** The processes of a browser, of some types or of all. */
export async function processes(browser, types) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return processInfo.filter(({ type }) => types?.includes(type) ?? true).map(({ id }) => id);
}

/**
 * The processor time of each of some threads, in seconds: what other programs take does not count. Of all the browser's threads if
 * none are chosen, else of those of the page's process.
 */
export async function threadTimes(browser, counts = null) {
  const times = new Map();
  for (const id of await processes(browser, counts ? ["renderer"] : null)) {
    for (const task of readdirSync(`/proc/${id}/task`)) {
      const of = (what) => readFileSync(`/proc/${id}/task/${task}/${what}`, "utf8");
      if (!counts || counts(of("comm"), Number(task) === id))
        times.set(task, Number(of("schedstat").split(" ")[0]) / 1e9);
    }
  }
  return times;
}

/** Of all processes of the browser; 0 of Firefox. */
export const browserTime = async (browser) => (FIREFOX ? 0 : sum([...(await threadTimes(browser)).values()]));
