// Two captures of one transfer, and what many transfers say together: as the command line says it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import {
  accessible,
  fits,
  open,
  program,
  root,
  saved,
  staged,
  temporary,
  onPage as withPage,
} from "./serve.mjs";

const POLICED = resolve(root, "corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
const SHAPED = resolve(root, "corpus/shaped-1500kbit/shaped-1500kbit.pcap.xz");
const SCENARIO = `
title = "Between two places"
duration = "3s"
[[element]]
name = "front"
kind = "tap"
[[element]]
name = "gate"
kind = "policer"
rate = "20mbit"
burst = "60kB"
[[element]]
name = "way"
kind = "delay"
delay = "10ms"
[[element]]
name = "back"
kind = "tap"
[[flow]]
name = "download"
count = 2
cc = ["cubic", "reno"]
rtt = "0ms"
path = ["front", "gate", "way", "back"]
back = ["back", "way", "front"]
`;
const folder = temporary("two");
const FRONT = join(folder, "front.pcap");
const BACK = join(folder, "back.pcap");

const stage = staged(() => {
  writeFileSync(join(folder, "two.toml"), SCENARIO);
  execFileSync(program(), ["lab", "run", join(folder, "two.toml"), "-q", "-o", folder]);
  return [];
});

const onPage = (context, work) => withPage(stage, context, work);

/** What the page says of the comparison, as the command line writes it. */
const told = (page) =>
  page.$eval(".comparison .story", (story) => {
    const text = (element) => element.textContent;
    const ways = [...story.querySelectorAll(".parts section")].map((section) => {
      const lines = [...section.querySelectorAll("dl div")].map(
        (line) => `  ${text(line.children[0]).padEnd(14)}${text(line.children[1])}`,
      );
      return ["", text(section.querySelector("h3")), ...lines];
    });
    const captures = [...story.querySelectorAll("ul.plain li")].map(text);
    return [text(story.querySelector("h2")), "", ...captures, ...ways.flat()];
  });

test("two captures are compared in the words of tidegate diagnose, by keyboard, and by address", async () => {
  const printed = execFileSync(program(), ["diagnose", FRONT, BACK, "-q"], { encoding: "utf8" });
  const wanted = printed.trimEnd().replaceAll(`${folder}/`, "").split("\n");
  assert.match(wanted[0], /^A policer from A to B at 20\./);
  let address;
  await onPage({}, async (page) => {
    await open(page, [FRONT, BACK]);
    await page.focus("form.compare button");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".comparison canvas");
    assert.deepEqual(await told(page), wanted);
    const panels = await page.$$eval(".comparison .panel", (all) => all.map((one) => one.dataset.panel));
    assert.deepEqual(panels, ["transit", "between-flight", "back", "position"]);
    await page.focus(".comparison .picture");
    // All packets from A to B, as the program counts them.
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected"));
    const said = (await page.textContent(".said")).replaceAll(",", "");
    const [, packets, lost] = / (\d+) packets .* (\d+) lost/.exec(said);
    const counted = wanted.find((line) => /^ {2}packets/.test(line));
    assert.equal(lost, /drops (\d+) data packets/.exec(wanted[0])[1]);
    const text = String(await saved(page, ".comparison .picture > p button"));
    const rows = text.trim().split("\n").slice(1);
    assert.equal(rows.length, Number(packets));
    // Diagnose leaves out those that B could not have seen any more.
    const covered = rows.filter((row) => !row.includes(",uncovered,"));
    assert.equal(covered.length, Number(/packets +(\d+),/.exec(counted)[1]));
    assert.equal(rows.filter((row) => row.includes(",lost,")).length, Number(lost));
    await page.keyboard.press("Escape");
    await page.focus(".comparison .picture");
    await page.keyboard.press("+");
    const over = page.locator("[data-panel=transit] .u-over");
    await over.hover({ position: { x: 200, y: 40 } });
    await page.waitForFunction(() =>
      /^Packet from A to B at .*10\.0 ms on its way|lost between/.test(
        document.querySelector(".said").textContent,
      ),
    );
    await page.waitForTimeout(500);
    await accessible(page);
    await fits(page);
    address = new URL(page.url()).hash;
    if (process.env.UPDATE_SCREENSHOTS) {
      await page.keyboard.press("0");
      await page.setViewportSize({ width: 1440, height: 1240 });
      await page.locator(".comparison").scrollIntoViewIfNeeded();
      await page.waitForTimeout(500);
      await page.locator(".comparison").screenshot({ path: resolve(root, "docs/img/page-compare.png") });
    }
    // The other way round it is the same policer, from B to A.
    await page.selectOption("form.compare label:nth-of-type(1) select", { label: "back.pcap" });
    await page.selectOption("form.compare label:nth-of-type(2) select", { label: "front.pcap" });
    await page.click("form.compare button");
    await page.waitForFunction(() => document.querySelector("#compared").textContent.includes("from B to A"));
    await page.click("text=Close the comparison");
    assert.equal(await page.locator(".comparison").count(), 0);
  });
  assert.ok(address.includes("first=front.pcap") && address.includes("second=back.pcap"), address);
  await onPage({ hash: address }, async (page) => {
    await open(page, [FRONT, BACK]);
    await page.waitForSelector(".comparison canvas");
    assert.equal(await page.textContent("#compared"), wanted[0]);
    await page.waitForTimeout(500);
    assert.equal(new URL(page.url()).hash, address);
  });
});

test("captures of one file name are told apart, also by addresses", async () => {
  const alike = [FRONT, BACK].map((path, i) => {
    mkdirSync(join(folder, String(i)), { recursive: true });
    copyFileSync(path, join(folder, String(i), "cap.pcap"));
    return join(folder, String(i), "cap.pcap");
  });
  await onPage({ hash: "#first=cap.pcap&second=cap.pcap" }, async (page) => {
    await open(page, alike);
    const names = await page.$$eval(".captures li b", (all) => all.map((one) => one.textContent));
    assert.deepEqual(names, ["cap.pcap", "cap.pcap (2)"]);
    // The address names one capture.
    assert.equal(await page.locator(".comparison, .trouble, .awaited").count(), 0);
    for (const [first, second, way] of [
      [...names, "from A to B"],
      [...names.toReversed(), "from B to A"],
    ]) {
      await page.evaluate(
        (fields) => {
          location.hash = new URLSearchParams(fields).toString();
        },
        { first, second },
      );
      await page.waitForFunction(
        (way) => document.querySelector("#compared")?.textContent.includes(way),
        way,
      );
    }
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#compared").textContent.includes("from A to B"));
  });
});

test("captures of other traffic are told from those of the same", async () => {
  await onPage({}, async (page) => {
    await open(page, [FRONT, POLICED]);
    await page.click("form.compare button");
    await page.waitForSelector(".comparison h2");
    assert.match(await page.textContent("#compared"), /^The captures share no packets/);
  });
});

test("the summary has the verdicts and rate clusters of tidegate detect", async () => {
  const printed = execFileSync(program(), ["detect", "--all", POLICED, SHAPED], { encoding: "utf8" });
  const [, verdicts] = /verdicts on \d+ transfers: (.*)/.exec(printed);
  const clusters = [...printed.matchAll(/^ +([\d.]+ .bit\/s) +(\d+) segments?$/gm)];
  assert.ok(clusters.length > 0, printed);
  await onPage({ hash: "#all=1" }, async (page) => {
    await open(page, [POLICED, SHAPED]);
    await page.waitForFunction(() =>
      document.querySelector("[role=status]")?.textContent.startsWith("20 of 20"),
    );
    await page.focus(".summary summary");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".summary canvas");
    const items = (list) => page.$$eval(`.summary ${list} li`, (all) => all.map((one) => one.textContent));
    const found = (await items(".verdicts")).map((text) => text.replace(/ transfers?:/, ""));
    assert.deepEqual(found.toSorted(), verdicts.split(", ").toSorted());
    const rates = await items(".clusters");
    assert.deepEqual(
      rates.map((text) => /^(.*?): (\d+) of/.exec(text).slice(1)),
      clusters.map((cluster) => cluster.slice(1)),
    );
    const panels = await page.$$eval(".summary .panel", (all) => all.map((one) => one.dataset.panel));
    assert.deepEqual(panels, ["losses", "rtts"]);
    await accessible(page);
  });
});
