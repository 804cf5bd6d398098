// The pictures of a transfer beside what the command line writes of it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { test } from "node:test";
import { accessible, explain, open, program, root, saved, staged, onPage as withPage } from "./serve.mjs";

const POLICED = resolve(root, "corpus/policed-1500kbit/policed-1500kbit.pcap.xz");

const stage = staged();

const onTransfer = (work) =>
  withPage(stage, {}, async (page) => {
    await open(page, POLICED);
    await explain(page, 0);
    await work(page);
  });

const savedText = async (page, button) => String(await saved(page, button));

const shown = async (page) => {
  const text = await page.textContent(".picture > p");
  const [, from, to] = /^([\d.]+) s to ([\d.]+) s/.exec(text);
  return { from: Number(from), to: Number(to) };
};

test("each panel has its curves, and is saved with them", async () => {
  await onTransfer(async (page) => {
    const wanted = {
      sequence: ["receive window", "selectively acknowledged", "data", "retransmission", "lost"],
      throughput: ["throughput: payload sent", "goodput: payload acknowledged", "the limit as payload"],
      flight: ["in flight", "receive window"],
      rtt: ["measured", "least of the path", "if the limiter were a queue of this size"],
      tokens: ["tokens", "lost", "full"],
      waited: ["each packet", "where a queue would have them"],
      gaps: ["data packets", "acknowledgements"],
      bursts: ["runs of 4 packets and more, each within 1 ms of the one before"],
    };
    await page.waitForTimeout(500);
    for (const [panel, labels] of Object.entries(wanted)) {
      const names = await page.$$eval(`[data-panel=${panel}] .key`, (keys) =>
        keys.map((key) => key.textContent),
      );
      for (const label of labels) assert.ok(names.includes(label), `${panel}: ${label} in ${names}`);
      const svg = await savedText(page, `[data-panel=${panel}] .saves button:first-child`);
      assert.ok(svg.startsWith("<svg") && svg.includes("<path") && !svg.includes("NaN"), panel);
      for (const label of labels) assert.ok(svg.includes(label), `${panel}: ${label}`);
    }
    // Chromium lets a page save ten files in a row.
    const png = await saved(page, "[data-panel=gaps] .saves button:last-child");
    assert.deepEqual([...png.subarray(1, 4)], [0x50, 0x4e, 0x47]);
  });
});

test("the packets that are shown are saved as tidegate detect writes them", async () => {
  const all = execFileSync(program(), ["detect", "--by", "packet", "-f", "csv", POLICED], {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  const [head, ...lines] = all.trim().split("\n");
  const columns = head.split(",");
  const column = (name) => (line) => line.split(",")[columns.indexOf(name)];
  const rows = lines.filter(
    (line) =>
      column("flow")(line) === "0" &&
      column("segment")(line) === "0" &&
      column("sender_port")(line) === "1234",
  );
  const rest = (line) => line.split(",").slice(1).join(",");
  await onTransfer(async (page) => {
    const whole = (await savedText(page, ".picture > p button")).trim().split("\n");
    assert.equal(whole[0], head);
    assert.deepEqual(whole.slice(1).map(rest), rows.map(rest));
    // A part, which is measured.
    await page.focus(".picture");
    await page.keyboard.press("+");
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected"));
    const [, count] = /selected: (\d+) packets/.exec(await page.textContent(".said"));
    const part = (await savedText(page, ".picture > p button")).trim().split("\n");
    assert.equal(part.length - 1, Number(count));
    assert.ok(part.length < whole.length && part.every((line) => whole.includes(line)));
  });
});

test("a sentence leads to its moment in the picture, by click and by key", async () => {
  await onTransfer(async (page) => {
    const whole = await shown(page);
    const sentence = page.locator("button.sentence", { hasText: "data packets were lost" });
    await sentence.first().click();
    await page.waitForSelector("[data-panel=sequence].led");
    const moment = await shown(page);
    assert.ok(moment.to - moment.from < (whole.to - whole.from) / 2, JSON.stringify(moment));
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected"));
    const [, lost] = /([\d]+) lost/.exec(await page.textContent(".said"));
    assert.ok(Number(lost) > 0);
    const delay = page.locator("button.sentence", { hasText: "Packets beside the median loss waited" });
    // A pointer that rests where the picture comes to tells of the packet there instead.
    await page.mouse.move(0, 0);
    await delay.first().focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-panel=rtt].led");
    assert.match(await page.textContent(".said"), /^Round-trip time, /);
    const inView = await page.$eval("[data-panel=rtt]", (panel) => {
      const { top, bottom } = panel.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    });
    assert.ok(inView);
    await accessible(page);
  });
});

test("packets are stepped through with the keyboard", async () => {
  await onTransfer(async (page) => {
    await page.focus(".picture");
    const said = async (start) => {
      await page.waitForFunction(
        (start) => document.querySelector(".said").textContent.startsWith(start),
        start,
      );
      return page.textContent(".said");
    };
    await page.keyboard.press("n");
    await said("Packet 0 at 0.000000 s: ");
    await page.keyboard.press("n");
    await said("Packet 1 at ");
    await page.keyboard.press("p");
    await said("Packet 0 at ");
    await page.keyboard.press("l");
    await page.waitForFunction(() =>
      document.querySelector(".said").textContent.includes("lost, retransmitted"),
    );
  });
});

test("a pointer shows the values of all curves there, and a drag with Shift measures", async () => {
  await onTransfer(async (page) => {
    const over = page.locator("[data-panel=throughput] .u-over");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.waitForFunction(() => document.querySelector("[data-panel=throughput] .values div"));
    const values = (panel) =>
      page.$$eval(`[data-panel=${panel}] .values > *`, (all) => all.map((one) => one.textContent));
    const [at, ...lines] = await values("throughput");
    assert.match(at, /^5\.6\d+ s$/);
    assert.match(lines[0], /^throughput: payload sent: [\d.]+ [kM]?bit\/s$/);
    // 1.50 Mbit/s on the link, without headers.
    assert.equal(lines.at(-1), "the limit as payload: 1.43 Mbit/s");
    // The other pictures show theirs at the same time.
    assert.equal((await values("tokens"))[0], at);
    await page.keyboard.down("Shift");
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + box.height / 2, { steps: 3 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected"));
    const [, count] = /selected: (\d+) packets/.exec(await page.textContent(".said"));
    assert.ok(Number(count) > 100, count);
    // A drag beyond the panel ends where the panel does.
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.keyboard.down("Shift");
    await page.mouse.down();
    await page.mouse.move(box.x + box.width + 40, box.y + box.height / 2, { steps: 3 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await page.waitForFunction(() =>
      /^5\.[67]\d s selected/.test(document.querySelector(".said").textContent),
    );
    await page.click("text=Leave the selection");
    await page.waitForFunction(() => !document.querySelector(".said").textContent.includes("selected"));
    await page.click("text=Measure what is shown");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected"));
  });
});

test("throughput and goodput are counted in windows that a person chooses", async () => {
  await onTransfer(async (page) => {
    const range = "[data-panel=throughput] input";
    const auto = await page.inputValue(range);
    const before = await savedText(page, "[data-panel=throughput] .saves button:first-child");
    // As a person does it: how a number is filled in by program differs between browsers.
    await page.focus(range);
    await page.keyboard.press("Control+A");
    await page.keyboard.type("1000");
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => location.hash.includes("window=1&") || location.hash.endsWith("window=1"),
    );
    await page.waitForTimeout(300);
    const after = await savedText(page, "[data-panel=throughput] .saves button:first-child");
    const steps = (svg) => svg.split("H").length;
    assert.ok(steps(after) < steps(before) / 2, `${steps(before)} ${steps(after)}`);
    await page.focus(range);
    for (const key of ["Control+A", "Delete", "Enter"]) await page.keyboard.press(key);
    await page.waitForFunction(
      ([range, auto]) => document.querySelector(range).value === auto,
      [range, auto],
    );
  });
});
