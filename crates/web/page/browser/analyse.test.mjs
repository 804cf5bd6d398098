// The page in a real browser, beside the command line: the same captures, the same words and numbers.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import {
  accessible,
  explain,
  open,
  program,
  root,
  saved,
  staged,
  temporary,
  onPage as withPage,
} from "./serve.mjs";

const corpus = (name) => resolve(root, "corpus", name);
const POLICED = corpus("policed-1500kbit/policed-1500kbit.pcap.xz");
const SHAPED = corpus("shaped-1500kbit/shaped-1500kbit.pcap.xz");
const files = JSON.parse(
  execFileSync("find", [corpus("."), "-name", "*.pcap*", "-printf", '"%p",'], { encoding: "utf8" }).replace(
    /^(.*),$/,
    "[$1]",
  ),
);

const stage = staged();

const onPage = (context, work) => withPage(stage, context, work);

/** The lines that are drawn, as cells by the names of their columns. */
async function table(page) {
  await page.waitForFunction(() => {
    const cells = [...document.querySelectorAll(".lines .cell")];
    return cells.length > 0 && cells.every((cell) => cell.textContent !== "…");
  });
  return page.$$eval(".lines .row", (rows) =>
    rows.map((row) =>
      Object.fromEntries([...row.children].map((cell) => [cell.classList[1], cell.textContent])),
    ),
  );
}

test("the corpus gets the verdicts, rates and numbers that tidegate detect prints", async () => {
  assert.ok(files.length >= 3, String(files));
  // They are compressed with xz and zstd.
  const folder = temporary("formats");
  const plain = execFileSync("xz", ["-dc", POLICED], { maxBuffer: 1 << 28 });
  const others = { "plain.pcap": plain, "gzip.pcap.gz": gzipSync(plain) };
  for (const [name, bytes] of Object.entries(others)) writeFileSync(join(folder, name), bytes);
  for (const path of [...files, ...Object.keys(others).map((name) => join(folder, name))]) {
    const printed = execFileSync(program(), ["detect", "--all", path], { encoding: "utf8" });
    const wanted = printed.split("\n").flatMap((line) => {
      const found = /^ *(\d+) (client|server) +(\S+) +(\S+) +(\S+) +(\S+ \S+|-) +(\S+) +(\S+) (.*)$/.exec(
        line,
      );
      if (!found) return [];
      const [, segment, from, time, packets, loss, goodput, rtt, sure, verdict] = found;
      return [{ segment, from, time, packets, loss, goodput, rtt, sure, verdict }];
    });
    assert.ok(wanted.length > 0, printed);
    await onPage({ hash: "#all=1" }, async (page) => {
      await open(page, path);
      const found = (await table(page)).map((line) =>
        Object.fromEntries(Object.keys(wanted[0]).map((key) => [key, line[key]])),
      );
      assert.deepEqual(found, wanted);
    });
  }
});

test("the engine is at most 1 MB to download", () => {
  const assets = resolve(import.meta.dirname, "../dist/assets");
  const engines = readdirSync(assets).filter((name) => name.endsWith(".wasm"));
  assert.equal(engines.length, 1);
  const { length } = gzipSync(readFileSync(resolve(assets, engines[0])), { level: 9 });
  assert.ok(length <= 1e6, `${length} bytes`);
});

test("a transfer's story has the sentences of tidegate explain", async () => {
  const told = execFileSync(program(), ["explain", "--json", "--flow", "0", "--segment", "0", POLICED], {
    encoding: "utf8",
  });
  // Commands, which stand between backticks in a terminal, are set as code.
  const { headline, evidence, advice, ruled_out, not_known } = JSON.parse(told.replaceAll("`", ""));
  await onPage({}, async (page) => {
    await open(page, POLICED);
    await explain(page, 0);
    assert.equal(await page.textContent("h2"), headline);
    const said = await page.$$eval(".story li", (items) => items.map((item) => item.textContent));
    assert.ok(evidence.length > 2 && ruled_out.length > 2);
    for (const text of evidence.concat(not_known)) assert.ok(said.includes(text), text);
    for (const { party, text } of advice) assert.ok(said.includes(`${party}: ${text}`), text);
    for (const { cause, why } of ruled_out) assert.ok(said.includes(`not ${cause}: ${why}`), why);
  });
});

test("bad captures get the line of the command line, and the page goes on", async () => {
  const folder = temporary("page");
  const plain = execFileSync("xz", ["-dc", POLICED], { maxBuffer: 1 << 28 });
  const bad = {
    "text.pcap": Buffer.from("This is a text, and no capture."),
    "empty.pcap": Buffer.alloc(0),
    "cut.pcap": plain.subarray(0, 100_007),
    "hostile.pcap": Buffer.concat([plain.subarray(0, 24), Buffer.alloc(64, 0xff)]),
  };
  await onPage({}, async (page) => {
    for (const [name, bytes] of Object.entries(bad)) {
      const path = join(folder, name);
      writeFileSync(path, bytes);
      const { stderr } = spawnSync(program(), ["detect", path], { encoding: "utf8" });
      const lines = stderr
        .trim()
        .split("\n")
        .map((line) => line.replace("tidegate: ", "").replace(path, name));
      assert.ok(lines[0].startsWith(name), stderr);
      await open(page, path);
      const said = await page.$$eval(".problem", (all) => all.map((one) => one.textContent));
      for (const line of lines) assert.ok(said.includes(line), `${line} is missing in ${said}`);
    }
    await open(page, SHAPED);
    assert.ok((await table(page)).some(({ file }) => file === basename(SHAPED)));
  });
});

test("a capture that is too large for a browser is refused with the command to run", async () => {
  await onPage({}, async (page) => {
    await page.evaluate(() => {
      const file = new File(["x"], "huge.pcap");
      Object.defineProperty(file, "size", { value: 5e9 });
      const event = new Event("drop", { bubbles: true, cancelable: true });
      Object.defineProperty(event, "dataTransfer", { value: { files: [file] } });
      document.body.dispatchEvent(event);
    });
    assert.match(await page.textContent(".problem"), /huge\.pcap: too large.*run: tidegate web huge\.pcap$/);
  });
});

test("a folder that is dropped is refused with the command to run", async () => {
  await onPage({}, async (page) => {
    await page.evaluate(() => {
      const event = new Event("drop", { bubbles: true, cancelable: true });
      const items = [{ webkitGetAsEntry: () => ({ isDirectory: true, name: "my captures" }) }];
      Object.defineProperty(event, "dataTransfer", {
        value: { files: [new File([], "my captures")], items },
      });
      document.body.dispatchEvent(event);
    });
    assert.match(
      await page.textContent(".trouble"),
      /^my captures is a folder.*run beside it: tidegate web '\.\/my captures'$/,
    );
  });
});

/** Waits until all lines have a verdict that begins so. */
const judged = (page, verdict) =>
  page.waitForFunction((verdict) => {
    const cells = [...document.querySelectorAll(".lines .cell.verdict")];
    return cells.length > 0 && cells.every((cell) => cell.textContent.startsWith(verdict));
  }, verdict);

test("the table sorts, filters and finds", async () => {
  await onPage({}, async (page) => {
    await open(page, [POLICED, SHAPED]);
    const descend = () => {
      const cells = [...document.querySelectorAll(".lines .cell.loss")];
      const losses = cells.map((cell) => Number.parseFloat(cell.textContent));
      return losses.length > 1 && losses.every((loss, i) => i === 0 || loss <= losses[i - 1]);
    };
    const counted = (shown) =>
      page.waitForFunction(
        (shown) => document.querySelector("[role=status]").textContent.startsWith(`${shown} of 20`),
        shown,
      );
    await table(page);
    assert.equal(await page.evaluate(descend), false);
    await page.click("[role=columnheader].loss button");
    await page.waitForSelector("[role=columnheader].loss[aria-sort=descending]");
    // The head says at once what is wanted, the lines follow when the engine has answered.
    await page.waitForFunction(descend);
    await page.selectOption(".table .tools select", "queue");
    await counted(5);
    await judged(page, "queue");
    await page.selectOption(".table .tools select", "");
    // What is found next are as many as these were.
    await counted(10);
    await page.fill(".table .tools input[type=search]", "POLICED-1500");
    await counted(5);
    await judged(page, "policer");
    const csv = String(await saved(page, ".table .tools button"))
      .trim()
      .split("\n");
    assert.equal(csv.length, 6);
    assert.ok(csv[0].startsWith("file,flow,segment,from,ends,start_offset_s,duration_s,data_packets,"));
  });
});

test("the keyboard alone suffices, and the address brings the view back", async () => {
  let address;
  await onPage({}, async (page) => {
    await open(page, POLICED);
    await table(page);
    await page.focus(".grid");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".panel canvas");
    assert.match(await page.textContent(".story"), /segment 2 of/);
    await page.focus(".picture");
    await page.keyboard.press("+");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector(".said").textContent.includes("selected:"));
    await page.waitForFunction(() => location.hash.includes("from="));
    await page.waitForTimeout(400);
    address = new URL(page.url()).hash;
  });
  const view = new URLSearchParams(address.slice(1));
  assert.ok(Number(view.get("from")) > 0, address);
  await onPage({ hash: address }, async (page) => {
    await open(page, POLICED);
    await page.waitForSelector(".panel canvas");
    await page.waitForTimeout(400);
    assert.match(await page.textContent(".story"), /segment 2 of/);
    assert.equal(new URL(page.url()).hash, address);
  });
});

test("an address whose capture is not open says which one to open, in a page that is open too", async () => {
  const hash = "#capture=policed-1500kbit.pcap.xz&flow=0&segment=1&side=server&from=2&to=3";
  await onPage({ hash }, async (page) => {
    assert.match(await page.textContent(".awaited"), /policed-1500kbit\.pcap\.xz.*open it/);
    await open(page, SHAPED);
    await table(page);
    assert.match(await page.textContent(".awaited"), /policed-1500kbit\.pcap\.xz/);
    await open(page, POLICED);
    await page.waitForSelector(".panel canvas");
    assert.equal(await page.locator(".awaited").count(), 0);
    assert.match(await page.textContent(".story"), /segment 1 of policed/);
    assert.match(await page.textContent(".picture > p"), /^2\.000000 s to 3\.000000 s/);
    // Another address, as a person pastes it.
    await page.evaluate((hash) => {
      location.hash = hash;
    }, "#capture=shaped-1500kbit.pcap.xz&flow=0&segment=3&side=server");
    await page.waitForFunction(() =>
      document.querySelector(".story")?.textContent.includes("segment 3 of shaped"),
    );
    // The browser's buttons lead between views and do not close captures.
    await page.click(".views button:has-text('Lab')");
    await page.waitForSelector("textarea");
    await page.goBack();
    await page.waitForSelector(".panel canvas");
    assert.match(await page.textContent(".story"), /segment 3 of shaped/);
    await page.goForward();
    await page.waitForSelector("textarea");
  });
});

test("a person without a capture sees an example", async () => {
  await onPage({}, async (page) => {
    await page.click("text=Show an example");
    await page.waitForSelector(".panel canvas", { timeout: 60_000 });
    assert.match(await page.textContent("h2"), /^A policer limited this transfer to 5\.\d+ Mbit\/s/);
  });
});

test("the picture zooms to the packet, and tells what became of it", async () => {
  await onPage({}, async (page) => {
    await open(page, POLICED);
    await explain(page, 0);
    const over = page.locator(".panel .u-over").first();
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const [x, y] = [box.x + box.width * 0.03, box.y + box.height / 2];
    await page.mouse.move(x, y);
    for (let i = 0; i < 24; i++) await page.mouse.wheel(0, -200);
    await page.mouse.move(x + 5, y);
    await page.waitForFunction(() => /^Packet \d+ at /.test(document.querySelector(".said").textContent));
    const shown = await page.textContent(".picture > p");
    const [from, to] = shown.match(/[\d.]+(?= s)/g).map(Number);
    assert.ok(to - from < 0.001, shown);
    const svg = String(await saved(page, "[aria-label='Save Round-trip time as SVG']"));
    assert.ok(svg.startsWith("<svg") && svg.includes("<path"));
    const png = await saved(page, "[aria-label='Save Sequence number as PNG']");
    assert.deepEqual([...png.subarray(1, 4)], [0x50, 0x4e, 0x47]);
  });
});

test("the policy runs no text as a program, and reaches no other origin", async () => {
  const own = await stage.browser.newPage();
  await own.goto(stage.server.address);
  const found = await own.evaluate(async () => {
    const violations = [];
    addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "globalThis.ran = true";
    document.body.append(script);
    await fetch("http://127.0.0.1:9/").catch(() => {});
    const style = document.createElement("style");
    style.textContent = "body { color: red }";
    document.head.append(style);
    await new Promise((done) => setTimeout(done, 300));
    return { ran: globalThis.ran === true, violations };
  });
  assert.equal(found.ran, false);
  for (const directive of ["script-src-elem", "connect-src", "style-src-elem"]) {
    assert.ok(found.violations.includes(directive), `${directive}: ${found.violations}`);
  }
  await own.close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing wrong, ${colorScheme}`, async () => {
    await onPage({}, async (page) => {
      await page.getByLabel("Colours").selectOption(colorScheme);
      await accessible(page);
      await open(page, [POLICED, SHAPED]);
      await table(page);
      await explain(page, 0);
      await page.waitForTimeout(300);
      await accessible(page);
      if (process.env.UPDATE_SCREENSHOTS) {
        await page.setViewportSize({ width: 1440, height: 2000 });
        await page.mouse.move(0, 0);
        await page.waitForTimeout(500);
        await page.screenshot({ path: resolve(root, `docs/img/page-${colorScheme}.png`) });
      }
    });
  });
}

for (const width of [360, 3840]) {
  test(`the page fits ${width} pixels`, async () => {
    await onPage({ viewport: { width, height: 900 } }, async (page) => {
      await open(page, POLICED);
      await table(page);
      await explain(page, 0);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide}`);
    });
  });
}
