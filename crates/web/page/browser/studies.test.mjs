// The pages of the studies beside the files that they are made of.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import { accessible, onPage, root, staged } from "./serve.mjs";

const folder = resolve(root, "studies");
const studies = readdirSync(folder).filter((name) => existsSync(resolve(folder, name, "README.md")));
const read = (name, file) => readFileSync(resolve(folder, name, file), "utf8");

const stage = staged();

const onStudies = (context, work) => onPage(stage, { hash: "#view=studies", ...context }, work);
const titled = (page, title) =>
  page.waitForFunction((title) => document.querySelector("#study")?.textContent === title, title);

/** The texts of the cells of a README's tables, as a person reads them. */
function cells(text) {
  const plain = (cell) =>
    cell
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .replace(/\*\*|`/g, "")
      .trim();
  const lines = text.split("\n").filter((line) => line.startsWith("|") && !/^\|[\s:|-]+\|$/.test(line));
  return lines.flatMap((line) => line.slice(1, -1).split("|").map(plain));
}

for (const name of studies) {
  test(`the page of ${name} has the values and pictures of its README`, async () => {
    const text = read(name, "README.md");
    await onStudies({ hash: `#view=studies&study=${name}` }, async (page) => {
      await titled(page, /^# (.*)/m.exec(text)[1].replaceAll("`", ""));
      const shown = await page.$$eval(".studies .text :is(td, th)", (all) =>
        all.map((cell) => cell.textContent.trim()),
      );
      assert.deepEqual(shown, cells(text));
      const pictures = text.match(/!\[/g)?.length ?? 0;
      assert.equal(await page.locator(".studies img").count(), pictures);
      await page.waitForFunction(() =>
        [...document.images].every((image) => image.complete && image.naturalWidth > 0),
      );
      if (existsSync(resolve(folder, name, "expected.txt"))) {
        assert.equal(await page.textContent(".studies details pre"), read(name, "expected.txt"));
      }
      await accessible(page);
    });
  });
}

test("the keyboard leads from the list to a study, from there to its scenario, and back", async () => {
  await onStudies({ colorScheme: "dark" }, async (page) => {
    await titled(page, "Studies");
    assert.equal(await page.locator(".studies tbody tr").count(), studies.length);
    await accessible(page);
    await page.getByRole("link", { name: "bcpqp-figure4" }).focus();
    await page.keyboard.press("Enter");
    await titled(page, "Rate enforcement: BC-PQP and its baselines");
    await page.waitForFunction(() => location.hash === "#view=studies&study=bcpqp-figure4");
    await page.getByRole("button", { name: "low-rate" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      (text) => document.querySelector("textarea")?.value === text,
      read("bcpqp-figure4", "low-rate.toml"),
    );
    await page.getByRole("button", { name: "Studies" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "All studies" }).focus();
    await page.keyboard.press("Enter");
    await titled(page, "Studies");
  });
});

test("a screenshot", { skip: !process.env.UPDATE_SCREENSHOTS }, async () => {
  await onStudies({ hash: "#view=studies&study=bcpqp-figure4" }, async (page) => {
    await page.waitForSelector("#study");
    await page.setViewportSize({ width: 1440, height: 1100 });
    await page.waitForTimeout(1000);
    await page.screenshot({ path: resolve(root, "docs/img/page-studies.png") });
  });
});

test("every scenario of the studies is in the lab, and is sound", async () => {
  const scenarios = studies.flatMap((name) =>
    readdirSync(resolve(folder, name))
      .filter((file) => file.endsWith(".toml"))
      .map((file) => [`${name}/${file.replace(".toml", "")}`, read(name, file)]),
  );
  assert.ok(scenarios.length > 10);
  await onStudies({ hash: "#view=lab" }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    for (const [name, text] of scenarios) {
      await page.selectOption(".scenario select", name);
      await page.waitForFunction((text) => document.querySelector("textarea").value === text, text);
      await page.waitForFunction(() =>
        /to simulate$/.test(document.querySelector(".scenario [role=status]")?.textContent),
      );
      assert.equal(await page.locator(".scenario .problem").count(), 0, name);
    }
  });
});
