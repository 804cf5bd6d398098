// The view of a gate whose answers the tests give: late ones, and those to what the gate does not know.
import assert from "node:assert/strict";
import { test } from "node:test";
import { saved, staged, onPage as withPage } from "./serve.mjs";

const stage = staged(() => ["--gate", "unix:/nonexistent/tidegate.sock"]);

/** Answers the page in the gate's place. */
const GATE = `
  const counted = (bps = 0) => ({
    rate: 1e6, passed_packets: 1, passed_bytes: 1000 + performance.now() / 8e3 * bps, excess_packets: 0, excess_bytes: 0,
  });
  const subscriber = (name) => ({
    name, plan: "home", set: gate.suspends, suspended: gate.suspends, turn: null, matches: ["192.0.2.16"], down: counted(8e5), up: counted(),
  });
  const names = ["alice", "anna", "bob"];
  const place = { interface: "lan", hook: "xdp-native", direction: "up", attached: true };
  /** What the tests change of it. */
  globalThis.gate = { access: { change: false, why: "start it with --gate-change" }, status: {}, events: [], fails: false, suspends: false };
  /** The list is of the last second, one subscriber of now. */
  let age = 0;
  const answers = {
    access: () => gate.access,
    "v1/status": () => ({
      version: "1", file: "gate.toml", attachments: [place], plans: 1, subscribers: 3, set: 0, shadow: false, unsettled: false, age_s: 0,
      down: counted(), up: counted(), unlimited: [], ...gate.status,
    }),
    "v1/subscribers": (fields) => {
      const found = names.filter((name) => name.includes(fields.get("name") ?? ""));
      age = 0.9 - age;
      return { matched: found.length, age_s: age, subscribers: found.map(subscriber) };
    },
    "v1/events": () => gate.events,
  };
  const late = new Promise((release) => { globalThis.release = release; });
  const asks = globalThis.fetch;
  globalThis.fetch = async (path, options) => {
    const { pathname, searchParams } = new URL(path, location.href);
    if (!pathname.startsWith("/gate/")) return asks(path, options);
    if (searchParams.get("name") === "a") await late;
    const answer = answers[pathname.slice("/gate/".length)];
    if (answer) return Response.json(answer(searchParams));
    const name = names.find((name) => pathname.endsWith("/v1/subscribers/" + name));
    if (name && gate.fails) return Response.json({ error: "the gate did not answer within 30 s" }, { status: 504 });
    if (name) return Response.json(subscriber(name));
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

test("a gate that enforces nothing is told of, in the words of tidegate gate status", async () => {
  await onGate("", async (page) => {
    await page.waitForSelector(ROWS);
    assert.equal(await page.locator("[role=alert]").count(), 0);
    await page.evaluate(() => {
      globalThis.gate.status = { attachments: [], shadow: true, unsettled: true };
    });
    await page.waitForSelector("[role=alert]");
    assert.deepEqual(await page.$$eval("[role=alert]", (all) => all.map((one) => one.textContent)), [
      "attached to no interface: nothing is limited",
      "shadow: nothing is dropped or marked, the counts say what would be",
      "a change was made only in part: tidegate gate reload tries again",
    ]);
    await page.evaluate(() => {
      const place = {
        interface: "lan",
        hook: "xdp-native",
        direction: "up",
        attached: true,
        renamed: "lan7",
      };
      globalThis.gate.status = { attachments: [place] };
    });
    await page.waitForSelector("[role=alert]", { state: "detached" });
    assert.match(
      await page.textContent(".facts"),
      /lan up \(xdp-native, the interface is named lan7 now: rename it in the file\)/,
    );
  });
});

test("the throughput of a subscriber goes on where the list is of others", async () => {
  await onGate("&subscriber=bob", async (page) => {
    await page.waitForSelector(".subscriber canvas");
    await page.fill(".gate input[type=search]", "al");
    await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, ROWS);
    /** How high the points of its curve are. */
    const points = async () => {
      const svg = String(await saved(page, "[aria-label='Save Throughput of the subscriber as SVG']"));
      const path = /<path d="M([^"]*)" fill="none"/.exec(svg)?.[1].split("L") ?? [];
      return path.map((point) => Number(point.trim().split(/[ ,]/)[1]));
    };
    const before = (await points()).length;
    await page.waitForTimeout(7000);
    const after = await points();
    assert.ok(after.length >= before + 2, `${before} points, then ${after.length}`);
    // It gets the same all the time.
    const latest = after.slice(-2);
    assert.ok(Math.abs(latest[0] - latest[1]) < 20, `${latest}`);
  });
});

test("an answer that fails for once leaves what a person typed, and what is asked", async () => {
  await onGate("&subscriber=bob", async (page) => {
    await page.evaluate(() => {
      globalThis.gate.access = { change: true };
    });
    const rate = page.getByLabel("Rate down", { exact: true });
    await rate.fill("3mbit");
    await rate.press("Enter");
    await page.waitForSelector("dialog[open]");
    await page.evaluate(() => {
      globalThis.gate.fails = true;
    });
    await page.waitForSelector(".problem");
    assert.match(await page.textContent(".problem"), /did not answer within 30 s/);
    await page.evaluate(() => {
      globalThis.gate.fails = false;
    });
    await page.waitForSelector(".problem", { state: "detached" });
    assert.equal(await page.locator("dialog[open]").count(), 1);
    assert.equal(await rate.inputValue(), "3mbit");
  });
});

test("a reset says what it ends", async () => {
  await onGate("&subscriber=bob", async (page) => {
    await page.evaluate(() => {
      globalThis.gate.access = { change: true };
      globalThis.gate.suspends = true;
    });
    await page.click("text=Reset…");
    assert.match(
      await page.textContent("dialog[open]"),
      /all other keys .* suspended only if the file says so\..*Addresses .* stay/,
    );
  });
});

test("events say what they have, and headings which way they sort", async () => {
  await onGate("&subscriber=bob", async (page) => {
    await page.evaluate(() => {
      const keys = { quota: "500GB", policy: { hosts: [4, 2] } };
      globalThis.gate.events = [
        { time: "2026-11-29T10:00:00.000Z", by: "uid 0", event: "set", subscriber: "bob", down: 3e6, keys },
      ];
    });
    await page.waitForSelector(".events tbody tr");
    assert.match(
      await page.textContent(".events tbody tr"),
      /down 3\.00 Mbit\/s; keys quota 500GB, policy hosts 4, 2/,
    );
    for (const [title, order, mark] of [
      ["subscriber", "ascending", "▴"],
      ["exceeds the limit", "descending", "▾"],
    ]) {
      await page.click(`.gate thead button:text-is("${title}")`);
      const head = page.locator(`.gate th[aria-sort=${order}]`);
      assert.equal(await head.textContent(), `${title} ${mark}`);
    }
  });
});
