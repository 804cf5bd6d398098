// What the page costs in Chromium, with software rendering: node bench.mjs CAPTURE MILLION MANY ROUNDS prints a line a figure. MILLION is a
// capture of one transfer with a million packets, MANY one of a million transfers. With PAGE_BROWSER=firefox-esr it measures the reading alone, in Firefox. The benchmark `page` of the package tidegate-bench calls this.
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { browserTime, processes, sum, threadTimes } from "./processes.mjs";
import { browse, FIREFOX, serve } from "./serve.mjs";
import { PAGES_WAY, receiver } from "./ways.mjs";

const [capture, million, many, rounds] = process.argv.slice(2);
const figure = (name, value, unit) => console.log(`${name} ${value.toPrecision(6)} ${unit}`);
const at = (values, share) =>
  values.toSorted((one, other) => one - other)[Math.floor((values.length - 1) * share)];

/** The times of frames, in milliseconds. */
const frames = (name, gaps) => {
  figure(`${name}.frame_p50`, at(gaps, 0.5), "ms");
  figure(`${name}.frame_p95`, at(gaps, 0.95), "ms");
};

const server = await serve();

/** A page in a browser of its own, so that no other page's memory is counted. */
async function onPage(flags, work) {
  const browser = await browse(flags);
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
    await page.goto(server.address);
    await page.waitForSelector("input[type=file]", { state: "attached" });
    await work(page, browser);
  } finally {
    await browser.close();
  }
}

/** How long the page took from the choice of a file to its table, and from the last byte, by its own clock. */
async function read(page, path) {
  await page.setInputFiles("input[type=file]", path);
  await page.waitForSelector(".captures[aria-busy=false]", { timeout: 120_000 });
  return page.evaluate(() => {
    const last = (name) => performance.getEntriesByName(name).at(-1);
    const { startTime, duration } = last("read");
    return { all: duration / 1e3, end: (startTime + duration - last("fetched").startTime) / 1e3 };
  });
}

/** Of the engine's worker, which also reads the file. */
const engineTime = async (browser) =>
  sum([...(await threadTimes(browser, (name) => name.startsWith("DedicatedWorker"))).values()]);
/** Of the thread that runs the page's scripts and draws its canvases. */
const pageTime = async (browser) => sum([...(await threadTimes(browser, (_, first) => first)).values()]);
/** The most memory that the page's process ever had, in bytes: Linux counts it. */
async function memory(browser) {
  if (FIREFOX) return 0;
  const peaks = (await processes(browser, ["renderer"])).map(
    (id) => /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1] * 1024,
  );
  return Math.max(...peaks);
}

try {
  const [paints, firsts, times, ends, engine, all, grown, handed] = [[], [], [], [], [], [], [], []];
  for (let round = 0; round < Number(rounds); round++) {
    await onPage([], async (page, browser) => {
      paints.push(
        await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0),
      );
      // The engine is compiled while a person looks for the file.
      await page.waitForTimeout(1000);
      const empty = await memory(browser);
      firsts.push((await read(page, capture)).all);
      grown.push((await memory(browser)) - empty);
      await page.click("text=Close all");
      for (let i = 0; i < 2; i++) {
        const before = FIREFOX ? [0, 0] : [await engineTime(browser), await browserTime(browser)];
        const took = await read(page, capture);
        times.push(took.all);
        ends.push(took.end);
        if (FIREFOX) continue;
        engine.push((await engineTime(browser)) - before[0]);
        all.push((await browserTime(browser)) - before[1]);
      }
      // The first one waits for the worker to start.
      const receive = await receiver(browser, capture);
      await receive(PAGES_WAY);
      handed.push(await receive(PAGES_WAY));
    });
  }
  const alone = handed.map(({ wall }) => wall);
  if (FIREFOX) {
    figure("page.firefox.analyse.first", at(firsts, 0.5), "s");
    figure("page.firefox.analyse", at(times, 0.5), "s");
    figure("page.firefox.after_file", at(ends, 0.5), "s");
    figure("page.firefox.file_alone", at(alone, 0.5), "s");
    server.end();
    process.exit();
  }
  const assets = resolve(import.meta.dirname, "../dist/assets");
  const wasm = readdirSync(assets).find((name) => name.endsWith(".wasm"));
  figure(
    "page.engine.compressed",
    gzipSync(readFileSync(resolve(assets, wasm)), { level: 9 }).length / 1e6,
    "MB",
  );
  figure("page.first_paint", at(paints, 0.5), "ms");
  figure("page.analyse.first", at(firsts, 0.5), "s");
  figure("page.analyse", at(times, 0.5), "s");
  figure("page.after_file", at(ends, 0.5), "s");
  figure("page.analyse_cpu", at(engine, 0.5), "s");
  figure("page.browser_cpu", at(all, 0.5), "s");
  figure("page.file_alone", at(alone, 0.5), "s");
  const aloneCpu = handed.map(({ cpu }) => cpu);
  figure("page.file_alone_cpu", at(aloneCpu, 0.5), "s");
  figure("page.peak_memory", at(grown, 0.5) / 1e6, "MB");
  // Frames as soon as they are drawn instead of sixty a second, so that the time of a frame is its cost.
  const unbounded = ["--disable-frame-rate-limit", "--disable-gpu-vsync"];
  await onPage(unbounded, async (page, browser) => {
    await read(page, million);
    await page.locator(".lines .row .verdict").first().click();
    await page.waitForSelector(".panel canvas", { timeout: 60_000 });
    await page.locator(".panel .u-over").first().scrollIntoViewIfNeeded();
    await page.waitForTimeout(3000);
    for (const [name, wheel] of [
      ["zoom", "in and out"],
      ["pan", "sideways"],
    ]) {
      const before = await pageTime(browser);
      const gaps = await page.evaluate(async (wheel) => {
        const over = document.querySelector(".panel .u-over");
        const box = over.getBoundingClientRect();
        const place = {
          clientX: box.left + box.width / 2,
          clientY: box.top + 20,
          bubbles: true,
          cancelable: true,
        };
        const gaps = [];
        let before = await new Promise(requestAnimationFrame);
        for (let i = 0; i < 300; i++) {
          const by = (i % 150 < 75 ? -1 : 1) * 40;
          const event = wheel === "sideways" ? { deltaX: by } : { deltaY: by };
          over.dispatchEvent(new WheelEvent("wheel", { ...place, ...event }));
          const now = await new Promise(requestAnimationFrame);
          gaps.push(now - before);
          before = now;
        }
        return gaps;
      }, wheel);
      const taken = (await pageTime(browser)) - before;
      frames(`page.${name}`, gaps);
      figure(`page.${name}.frame_cpu`, (1e3 * taken) / gaps.length, "ms");
      // Panning begins in the middle of the transfer.
      for (let i = 0; i < 4; i++) await page.locator(".picture").press("+");
      await page.waitForTimeout(1000);
    }
  });
  await onPage(unbounded, async (page) => {
    await page.evaluate(() => {
      location.hash = "#all=1";
    });
    await page.reload();
    await page.waitForSelector("input[type=file]", { state: "attached" });
    await read(page, many);
    await page.waitForFunction(() => document.querySelectorAll(".lines .row").length > 5);
    figure(
      "page.table.transfers",
      Number(await page.getAttribute(".grid", "aria-rowcount")) - 1,
      "transfers",
    );
    await page.locator(".grid").scrollIntoViewIfNeeded();
    await page.waitForTimeout(1000);
    // A turn of a wheel a frame, and then as fast as a scroll bar is dragged from the top to the end.
    for (const [name, steps] of [
      ["scroll", 0],
      ["drag", 300],
    ]) {
      const { gaps, without, until } = await page.evaluate(async (steps) => {
        const grid = document.querySelector(".grid");
        const has = () => {
          const box = grid.getBoundingClientRect();
          const middle = document.elementFromPoint(box.left + 20, box.top + box.height / 2);
          return Boolean(middle?.closest(".row")) && middle.textContent !== "…";
        };
        const gaps = [];
        let without = 0;
        let before = await new Promise(requestAnimationFrame);
        for (let i = 0; i < 300; i++) {
          grid.scrollTop += steps ? grid.scrollHeight / steps : 120;
          const now = await new Promise(requestAnimationFrame);
          gaps.push(now - before);
          before = now;
          if (!has()) without++;
        }
        while (!has()) await new Promise(requestAnimationFrame);
        return { gaps, without, until: performance.now() - before };
      }, steps);
      frames(`page.table.${name}`, gaps);
      if (steps) figure("page.table.drag.text_after", until, "ms");
      else figure("page.table.scroll.frames_without_text", (100 * without) / gaps.length, "%");
    }
  });
} finally {
  server.end();
}
