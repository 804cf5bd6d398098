// The view of a gate whose answers the tests give: late ones, and those to what the gate does not know.
import assert from "node:assert/strict";
import { test } from "node:test";
import { staged, onPage as withPage } from "./serve.mjs";

const stage = staged(() => ["--gate", "unix:/nonexistent/tidegate.sock"]);

/** Answers the page in the gate's place. */
const GATE = `
  const counted = { passed_packets: 1, passed_bytes: 1000, excess_packets: 0, excess_bytes: 0 };
  const subscriber = (name) => ({
    name, plan: "home", set: false, suspended: false, turn: null, matches: ["192.0.2.16"], down: null, up: null,
  });
  const names = ["alice", "anna", "bob"];
  const answers = {
    access: () => ({ change: false, why: "start it with --gate-change" }),
    "v1/status": () => ({
      version: "1", file: "gate.toml", attachments: [], plans: 1, subscribers: 3, set: 0, unsettled: false, age_s: 0,
      down: counted, up: counted, unlimited: [],
    }),
    "v1/subscribers": (fields) => {
      const found = names.filter((name) => name.includes(fields.get("name") ?? ""));
      return { matched: found.length, age_s: 0, subscribers: found.map(subscriber) };
    },
    "v1/events": () => [],
  };
  const late = new Promise((release) => { globalThis.release = release; });
  const asks = globalThis.fetch;
  globalThis.fetch = async (path, options) => {
    const { pathname, searchParams } = new URL(path, location.href);
    if (!pathname.startsWith("/gate/")) return asks(path, options);
    if (searchParams.get("name") === "a") await late;
    const answer = answers[pathname.slice("/gate/".length)];
    if (answer) return Response.json(answer(searchParams));
    return Response.json({ error: "there is no subscriber of this name" }, { status: 404 });
  };
`;

const [address, fields] = [
  () => stage.server.address.split("#")[0],
  () => stage.server.address.split("#")[1],
];

async function onGate(hash, work) {
  const context = await stage.browser.newContext({ viewport: { width: 1440, height: 400 } });
  try {
    const page = await context.newPage();
    await page.addInitScript(GATE);
    await page.goto(`${address()}#${fields()}${hash}`);
    await work(page);
  } finally {
    await context.close();
  }
}

const ROWS = ".gate [aria-label=Subscribers] tbody tr";

test("an unknown subscriber is told of, beside the others", async () => {
  await onGate("&subscriber=nobody", async (page) => {
    await page.waitForSelector(ROWS);
    assert.equal(await page.locator(ROWS).count(), 3);
    await page.waitForSelector(".problem");
    assert.match(await page.textContent(".problem"), /there is no subscriber of this name/);
  });
});

test("an answer that comes late does not replace a later one", async () => {
  await onGate("", async (page) => {
    await page.waitForSelector(ROWS);
    const find = ".gate input[type=search]";
    await page.fill(find, "a");
    await page.waitForTimeout(100);
    await page.fill(find, "al");
    await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, ROWS);
    await page.evaluate(() => globalThis.release());
    await page.waitForTimeout(300);
    assert.equal(await page.locator(ROWS).count(), 1);
  });
});

test("the wheel scrolls where a picture cannot zoom", async () => {
  await onGate("", async (page) => {
    const over = page.locator(".gate .u-over").first();
    await over.scrollIntoViewIfNeeded();
    const before = await page.evaluate(() => scrollY);
    await over.hover();
    await page.mouse.wheel(0, -1000);
    await page.mouse.wheel(0, before > 100 ? -300 : 300);
    await page.waitForFunction((before) => scrollY !== before, before);
  });
});

test("without the key the view says which address to open", async () => {
  const server = { ...stage.server, address: address() };
  await withPage({ ...stage, server }, { hash: "#view=gate&subscriber=alice" }, async (page) => {
    await page.waitForSelector("main .problem");
    assert.match(await page.textContent("main"), /open the address that tidegate web printed/);
    assert.doesNotMatch(await page.textContent("main"), /--gate unix/);
  });
});
