// What a user does in a shell: watches a video or visits pages in Chromium, beside a download. Runs within `tidegate shell`, and
// prints what was seen as JSON: node viewer.mjs TASK.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const task = JSON.parse(readFileSync(process.argv[2], "utf8"));
const server = task.server;

/** Downloads until the end, by a sender with this congestion control. */
function download({ cc, seconds }) {
  const words = ["-c", server, "-R", "-C", cc, "-t", String(seconds)];
  const iperf = spawn("iperf3", words, { stdio: ["ignore", "ignore", "inherit"] });
  let wanted = true;
  const ended = new Promise((done) => {
    iperf.on("exit", (code) => {
      if (wanted) throw new Error(`the download ended too early, with ${code}`);
      done();
    });
  });
  return () => {
    wanted = false;
    iperf.kill();
    return ended;
  };
}

async function watch(browser, video) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(`player: ${error.message}`));
  await page.goto(`file://${join(import.meta.dirname, "player/player.html")}`);
  const manifest = `https://${server}/video/video.mpd`;
  return page.evaluate((options) => window.play(options), { ...video, manifest });
}

/** Watches a video with either player. */
async function watchServed(browser, video) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(`${video.player}: ${error.message}`));
  await page.goto(`file://${join(import.meta.dirname, "player/either.html")}`);
  return page.evaluate((options) => window.play(options), video);
}

/** Visits a page with an empty cache, and keeps an archive (HAR) of it if there is a place for it. */
async function visit(browser, { path, archive }) {
  const recordHar = archive && { path: archive, content: "omit" };
  const context = await browser.newContext({ ignoreHTTPSErrors: true, recordHar });
  const page = await context.newPage();
  const url = `https://${server}/sites/${path}`;
  let failed;
  await page.goto(url, { waitUntil: "load", timeout: 120_000 }).catch((error) => {
    failed = error.message.split("\n")[0];
  });
  // Chromium notes the paint a frame later.
  await page.waitForTimeout(200);
  const times = await page.evaluate(() => {
    const [navigation] = performance.getEntriesByType("navigation");
    const objects = performance.getEntriesByType("resource");
    const before = objects.filter((one) => one.startTime < navigation.loadEventStart);
    return {
      load: navigation.loadEventStart / 1000,
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime / 1000,
      objects: before.length + 1,
      bytes: before.reduce((sum, one) => sum + one.transferSize, navigation.transferSize),
      protocol: navigation.nextHopProtocol,
    };
  });
  await context.close();
  return { path, failed, ...times };
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--ignore-certificate-errors",
    // Some pages name servers that are not in this network: they are unknown at once, as an object that fails.
    `--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE ${server}`,
    "--autoplay-policy=no-user-gesture-required",
  ],
});
const stop = task.download && download(task.download);
// The download has its rate before anything else begins.
await new Promise((done) => setTimeout(done, 1000 * (task.download?.lead ?? 0)));
const seen = {};
if (task.video) seen.video = await watch(browser, task.video);
if (task.served) seen.served = await watchServed(browser, task.served);
if (task.pages) {
  seen.pages = [];
  for (const page of task.pages) seen.pages.push(await visit(browser, page));
}
await browser.close();
await stop?.();
console.log(JSON.stringify(seen));
