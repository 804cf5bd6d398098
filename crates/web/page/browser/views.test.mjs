// What holds for every view: it fits small and large screens, shows no obstacle there, and is reached by its address and by touch.
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import { accessible, browse, explain, onPage, open, root, staged } from "./serve.mjs";

const POLICED = resolve(root, "corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
const VIEWS = {
  lab: [
    "#view=lab&scenario=capture",
    async (page) => {
      await page.click("button.primary:not([disabled])");
      await page.waitForSelector(".run canvas", { timeout: 120_000 });
    },
  ],
  gate: ["#view=gate", (page) => page.waitForSelector("main :is(p, h2)")],
  studies: ["#view=studies&study=bcpqp-figure4", (page) => page.waitForSelector(".studies table")],
};

const stage = staged();

for (const width of [360, 3840]) {
  for (const [name, [hash, ready]] of Object.entries(VIEWS)) {
    test(`the view ${name} fits ${width} pixels`, async () => {
      await onPage(stage, { hash, viewport: { width, height: 900 } }, async (page) => {
        await ready(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${wide}`);
        await accessible(page);
      });
    });
  }
}

test("a link to an edited scenario opens it in another browser", async () => {
  let address;
  let text;
  await onPage(stage, { hash: "#view=lab" }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    text = `${await page.inputValue("textarea")}\n# "ä" & 100 % + more #1\n`;
    await page.fill("textarea", text);
    await page.waitForSelector("button.primary:not([disabled])");
    await page.click("text=Link");
    address = new URL(page.url()).hash;
  });
  await onPage(stage, { hash: address }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    assert.equal(await page.inputValue("textarea"), text);
  });
});

for (const colorScheme of ["light", "dark"]) {
  test(`the page is ${colorScheme} where the system is`, async () => {
    const dark = colorScheme === "dark";
    const browser = await browse([], { "ui.systemUsesDarkTheme": Number(dark) });
    try {
      const context = process.env.PAGE_BROWSER === "firefox-esr" ? {} : { colorScheme };
      await onPage({ ...stage, browser }, context, async (page) => {
        assert.equal(await page.inputValue("header select"), "auto");
        const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(background, dark ? "rgb(20, 23, 26)" : "rgb(255, 255, 255)");
        await open(page, POLICED);
        await explain(page, 0);
        // Curves are drawn in the colours of the same theme: data packets in its blue.
        const blue = dark ? [86, 168, 232] : [11, 98, 168];
        await page.waitForFunction((blue) => {
          const canvas = document.querySelector("[data-panel=sequence] canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let found = 0;
          for (let i = 0; i < data.length; i += 4) {
            if (blue.every((value, k) => data[i + k] === value) && data[i + 3] === 255) found++;
          }
          return found > 100;
        }, blue);
      });
    } finally {
      await browser.close();
    }
  });
}

/** Touches come by Chromium's protocol. */
const touchless =
  process.env.PAGE_BROWSER === "firefox-esr" && "this Firefox takes no touches from a program";
test("one finger moves the pictures, and two zoom them", { skip: touchless }, async () => {
  const context = { viewport: { width: 412, height: 900 }, hasTouch: true };
  await onPage(stage, context, async (page) => {
    await open(page, POLICED);
    await explain(page, 0);
    const over = page.locator(".panel .u-over").first();
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const session = await page.context().newCDPSession(page);
    const touch = (type, ...shares) =>
      session.send("Input.dispatchTouchEvent", {
        type,
        touchPoints: shares.map((share, id) => ({
          x: box.x + box.width * share,
          y: box.y + box.height / 2,
          id,
        })),
      });
    const shown = async () => {
      await page.waitForTimeout(200);
      const text = await page.textContent(".picture > p");
      return text.match(/[\d.]+(?= s)/g).map(Number);
    };
    // A touch tells of the packet there.
    await over.tap({ position: { x: box.width / 2, y: box.height / 2 } });
    await page.waitForFunction(() => /^Packet \d+ at /.test(document.querySelector(".said").textContent));
    const [, whole] = await shown();
    await touch("touchStart", 0.4, 0.6);
    for (const by of [0.05, 0.1, 0.15, 0.2]) await touch("touchMove", 0.4 - by, 0.6 + by);
    await touch("touchEnd");
    const [from, to] = await shown();
    // The fingers were 0.2 apart, and are 0.6 apart.
    assert.ok(Math.abs((to - from) / (whole / 3) - 1) < 0.1, `${from} ${to} of ${whole}`);
    await touch("touchStart", 0.7);
    for (const at of [0.6, 0.5, 0.4]) await touch("touchMove", at);
    await touch("touchEnd");
    const [later, end] = await shown();
    assert.ok(Math.abs((later - from) / (0.3 * (to - from)) - 1) < 0.1, `${later} ${end}`);
  });
});
