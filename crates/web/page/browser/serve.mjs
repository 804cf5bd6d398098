// Starts `tidegate web` and a browser for the tests.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before } from "node:test";
import { chromium, firefox } from "playwright-core";

export const root = resolve(import.meta.dirname, "../../../..");

/** The program under test. */
export function program() {
  const target = process.env.CARGO_TARGET_DIR ?? resolve(root, "target");
  const found = ["debug", "release"].map((profile) => resolve(target, profile, "tidegate"));
  const given = process.env.TIDEGATE ?? found.find((path) => existsSync(path));
  if (!given) throw new Error("no tidegate was built: run cargo build, or name it in TIDEGATE");
  return given;
}

/** Serves the page in dist; the address and how to end it. */
export async function serve(options = []) {
  const page = resolve(import.meta.dirname, "../dist");
  const server = spawn(program(), ["web", "--quiet", "--port", "0", "--page", page, ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const address = await new Promise((found, failed) => {
    server.stdout.once("data", (line) => found(String(line).trim()));
    server.once("exit", () => failed(new Error("tidegate web ended")));
  });
  return { address, end: () => server.kill() };
}

/** A new folder for files of this name, which goes when the tests have ended. */
export function temporary(name) {
  const folder = mkdtempSync(join(tmpdir(), `tidegate-${name}-`));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export const FIREFOX = process.env.PAGE_BROWSER === "firefox-esr";
/** Where Firefox puts files that are saved. */
const downloads = FIREFOX ? temporary("saved") : null;

/**
 * Starts Chromium, or Firefox where PAGE_BROWSER names it. Firefox takes `preferences`, which say among other things how its system is set;
 * Chromium is told that by each page's context.
 */
export async function browse(flags = [], preferences = {}) {
  if (FIREFOX) {
    // The browser of the distribution, by the standard protocol WebDriver BiDi.
    const executablePath = "/usr/bin/firefox-esr";
    return firefox.launch({
      channel: "moz-firefox",
      executablePath,
      downloadsPath: downloads,
      firefoxUserPrefs: preferences,
    });
  }
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // Without a sandbox of its own, since tests may run as root; with software rendering, since there may be no display.
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", ...flags],
  });
}

/**
 * A server and a browser for all tests of a file. `options` says what the server is asked for, once it is needed: what the tests
 * read may have to be made first.
 */
export function staged(options = () => []) {
  const stage = {};
  before(async () => {
    stage.server = await serve(options());
    stage.browser = await browse();
  });
  after(async () => {
    await stage.browser?.close();
    stage.server?.end();
  });
  return stage;
}

/** A page, which must have asked no other origin and complained of nothing when the test ends. */
export async function onPage({ browser, server }, context, work) {
  const own = await browser.newContext({ viewport: { width: 1440, height: 1000 }, ...context });
  const page = await own.newPage();
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(server.address) && !/^(blob|data):/.test(url)) wrong.push(`asked ${url}`);
  });
  try {
    await page.goto(server.address + (context.hash ?? ""));
    await work(page);
    assert.deepEqual(wrong, []);
  } catch (error) {
    // What the page shows says more than where the test stood.
    const shown = await page.evaluate(() => document.body.textContent.slice(0, 600)).catch(String);
    error.message += `\nThe page showed: ${shown}\nIt complained of: ${wrong.join("; ") || "nothing"}`;
    throw error;
  } finally {
    await own.close();
  }
}

/** Opens captures and waits until they are read. */
export const open = async (page, paths) => {
  await page.setInputFiles("input[type=file]", paths);
  await page.waitForSelector(".captures[aria-busy=false]");
};

/** Explains the transfer in a line of the table. */
export const explain = async (page, line) => {
  await page.locator(".lines .row").nth(line).click();
  await page.waitForSelector(".panel canvas");
};

/** The file that a click on a button saves, as bytes. */
export async function saved(page, button) {
  if (!FIREFOX) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
    return readFileSync(await file.path());
  }
  // The library learns of no download from this Firefox, but the file is there when it is complete.
  const sizes = () =>
    new Map(readdirSync(downloads).map((name) => [name, statSync(join(downloads, name)).size]));
  const before = sizes();
  await page.click(button);
  for (let last = before, i = 0; i < 300; i++) {
    await page.waitForTimeout(100);
    const now = sizes();
    const name = [...now.keys()].find((one) => !before.has(one) && !one.endsWith(".part"));
    if (name && now.get(name) > 0 && now.get(name) === last.get(name)) {
      return readFileSync(join(downloads, name));
    }
    last = now;
  }
  throw new Error(`${button} saved no file`);
}

const AXE = readFileSync(resolve(import.meta.dirname, "../node_modules/axe-core/axe.min.js"), "utf8");

/** Fails where people who cannot see or point well meet an obstacle. */
export async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const told = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).slice(0, 3)}`,
  );
  assert.deepEqual(told, []);
}

/** Fails where what is shown stays wider than the narrowest or the widest screen: pictures follow a change of size a little later. */
export async function fits(page) {
  const size = page.viewportSize();
  for (const width of [360, 3840]) {
    await page.setViewportSize({ width, height: 900 });
    await page.waitForFunction((width) => document.documentElement.scrollWidth <= width, width);
  }
  await page.setViewportSize(size);
}
