// Captures in the folders of `tidegate web`: read by the program, shown by the same page, with the same numbers as in the browser.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import {
  accessible,
  explain,
  fits,
  open,
  root,
  serve,
  staged,
  temporary,
  onPage as withPage,
} from "./serve.mjs";

const POLICED = resolve(root, "corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
const SHAPED = resolve(root, "corpus/shaped-1500kbit/shaped-1500kbit.pcap.xz");
const folder = temporary("folder");

const stage = staged(() => {
  copyFileSync(POLICED, join(folder, "policed.pcap.xz"));
  copyFileSync(SHAPED, join(folder, "shaped.pcap.xz"));
  writeFileSync(join(folder, "broken.pcap"), "This is a text, and no capture.");
  return [folder];
});

/** The page with the key that the printed address has. */
const onPage = (hash, work) => {
  const [address, key] = stage.server.address.split("#");
  return withPage({ ...stage, server: { ...stage.server, address } }, { hash: `${hash}${key}` }, work);
};

const rows = (page) =>
  page.$$eval(".lines .row", (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));

const ready = async (page, count) => {
  await page.waitForSelector(".captures[aria-busy=false]");
  await page.waitForFunction(
    (count) =>
      document.querySelectorAll(".lines .row").length === count &&
      [...document.querySelectorAll(".lines .cell")].every((cell) => cell.textContent !== "…"),
    count,
  );
};

/** The pictures, once they have not changed for two seconds. */
async function settled(page) {
  let drawn = await curves(page);
  for (let same = 0; same < 4; ) {
    await page.waitForTimeout(500);
    const now = await curves(page);
    same = now.join() === drawn.join() ? same + 1 : 0;
    drawn = now;
  }
  return drawn;
}

/** A number for the pixels of each picture. */
const curves = (page) =>
  page.$$eval(".panel canvas", (all) =>
    all.map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Uint32Array(data.buffer).reduce((sum, pixel) => (Math.imul(sum, 31) + pixel) | 0, 0);
    }),
  );

test("the program reads what the page lists, and the page shows what it shows of dropped captures", async () => {
  let served;
  let address;
  await onPage("#", async (page) => {
    await page.waitForSelector(".folders tbody tr");
    const names = await page.$$eval(".folders tbody th", (all) => all.map((one) => one.textContent));
    assert.deepEqual(
      names,
      ["broken.pcap", "policed.pcap.xz", "shaped.pcap.xz"].map((name) => join(folder, name)),
    );
    await page.click(`.folders button:has-text("policed.pcap.xz")`);
    await ready(page, 5);
    await explain(page, 0);
    served = { rows: await rows(page), story: await page.textContent(".parts"), curves: await settled(page) };
    address = new URL(page.url()).hash;
    await accessible(page);
    await fits(page);
  });
  await onPage("#", async (page) => {
    await open(page, POLICED);
    await ready(page, 5);
    await explain(page, 0);
    const cells = (all) => all.map((row) => row.slice(1));
    assert.deepEqual(cells(await rows(page)), cells(served.rows));
    assert.equal(await page.textContent(".parts"), served.story);
    const found = await settled(page);
    assert.ok(found.length >= 8);
    assert.deepEqual(found, served.curves);
  });
  // The address brings the view back, without a click.
  assert.ok(address.includes("capture="), address);
  await onPage(`${address}&`, async (page) => {
    await page.waitForSelector(".panel canvas");
    assert.match(await page.textContent(".story"), /segment 0 of .*policed\.pcap\.xz/);
  });
});

test("what is wrong with a listed capture is said, and the page goes on", async () => {
  await onPage("#", async (page) => {
    await page.waitForSelector(".folders tbody tr");
    await page.focus(".folders input");
    await page.keyboard.type("broken");
    await page.waitForFunction(() => document.querySelectorAll(".folders tbody tr").length === 1);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".problem");
    assert.match(await page.textContent(".problem"), /broken\.pcap: not a packet capture/);
    await page.fill(".folders input", "");
    await page.click("text=Open these");
    await ready(page, 10);
    // A dropped capture is read in the browser, beside nothing else.
    await open(page, SHAPED);
    await ready(page, 5);
    assert.equal(await page.locator(".captures li").count(), 1);
  });
});

test("what the list leaves out is said", async () => {
  const outer = temporary("deep");
  const deep = join(outer, ...Array(17).fill("d"));
  mkdirSync(deep, { recursive: true });
  copyFileSync(POLICED, join(deep, "policed.pcap.xz"));
  const server = await serve([outer]);
  try {
    const [address, key] = server.address.split("#");
    await withPage({ ...stage, server: { address } }, { hash: `#${key}` }, async (page) => {
      await page.waitForSelector(".folders .problem");
      assert.match(
        await page.textContent(".folders .problem"),
        /1 folder is not looked into, below 16 others/,
      );
      await accessible(page);
    });
  } finally {
    server.end();
  }
});
