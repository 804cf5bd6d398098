// The lab in the browser beside the lab of the command line: the same scenario, the same numbers to the last bit.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { accessible, onPage, program, root, saved, staged, temporary } from "./serve.mjs";

const folder = resolve(root, "crates/lab/scenarios");
const examples = readdirSync(folder).map((file) => file.replace(".toml", ""));
/** How long a scenario may take in a browser on a busy machine. */
const PATIENCE = 240_000;

const stage = staged();

const onLab = (context, work) => onPage(stage, { hash: "#view=lab", ...context }, work);

async function run(page) {
  await page.waitForSelector("button.primary:not([disabled])");
  await page.click("button.primary");
  await page.waitForSelector(".run", { timeout: PATIENCE });
}

const results = (page) =>
  page.$$eval(".run:first-child tbody tr", (rows) => rows.map((row) => JSON.parse(row.dataset.values)));

for (const name of examples) {
  test(`the example ${name} gives what tidegate lab run gives, bit for bit`, async () => {
    // Both run two seconds of each simulation of the one scenario that takes minutes.
    const whole = readFileSync(join(folder, `${name}.toml`), "utf8");
    const text = name === "rate-enforcement" ? whole.replace(/^duration = .*$/m, 'duration = "2s"') : whole;
    const path = join(temporary("lab"), "scenario");
    writeFileSync(path, text);
    const printed = execFileSync(program(), ["lab", "run", "--quiet", "-f", "json", path], {
      encoding: "utf8",
    });
    const wanted = JSON.parse(printed);
    assert.ok(wanted.length > 0);
    await onLab({ hash: `#view=lab&scenario=${name}` }, async (page) => {
      await page.waitForSelector("button.primary:not([disabled])");
      await page.fill("textarea", text);
      await run(page);
      assert.deepEqual(await results(page), wanted);
      assert.equal(await page.inputValue(".scenario select"), text === whole ? name : "");
      const csv = execFileSync(program(), ["lab", "run", "--quiet", "-f", "csv", path], { encoding: "utf8" });
      assert.equal(String(await saved(page, "[aria-label='Save the results of run 1 as CSV']")), csv);
    });
  });
}

test("a mistake is named with its place, as the command line names it", async () => {
  await onLab({}, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    const text = await page.inputValue("textarea");
    const wrong = text.replace(/^duration = .*$/m, 'duration = "soon"');
    assert.notEqual(wrong, text);
    await page.fill("textarea", wrong);
    await page.waitForSelector(".scenario .problem");
    const path = join(temporary("lab"), "scenario");
    writeFileSync(path, wrong);
    let said = "";
    try {
      execFileSync(program(), ["lab", "check", path], { encoding: "utf8", stdio: "pipe" });
    } catch (error) {
      said = error.stderr;
    }
    assert.equal(
      `tidegate: ${await page.textContent(".scenario .problem")}`,
      said.trim().replaceAll(path, "scenario"),
    );
    assert.equal(await page.isDisabled("button.primary"), true);
    await page.fill("textarea", text);
    await page.waitForSelector("button.primary:not([disabled])");
  });
});

test("a text that was changed is kept, whatever the address names", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    const text = await page.inputValue("textarea");
    await page.click("text=Link");
    await page.fill("textarea", `# mine\n${text}`);
    await page.click(".views button:has-text('Analyse')");
    await page.goBack();
    await page.waitForSelector("textarea");
    assert.equal(await page.inputValue("textarea"), `# mine\n${text}`);
    // Another address is pasted: the page asks first.
    const paste = (scenario) =>
      page.evaluate((scenario) => {
        location.hash = `view=lab&scenario=${scenario}`;
      }, scenario);
    await paste("policies");
    await page.waitForSelector(".scenario .problem");
    await accessible(page);
    assert.equal(await page.inputValue("textarea"), `# mine\n${text}`);
    await page.click("text=Show it instead");
    await page.waitForFunction(() => document.querySelector(".scenario select").value === "policies");
    assert.equal(await page.locator(".scenario .problem").count(), 0);
    // What was not changed makes room at once.
    await paste("capture");
    await page.waitForFunction((text) => document.querySelector("textarea").value === text, text);
  });
});

test("a scheme is changed though values are on several lines, and what the sweep varies is not", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    await page.waitForSelector(".limiter select");
    const text = await page.inputValue("textarea");
    const pqp = text
      .replace('kind = "policer"', 'kind = \'pqp\'\npolicy = { priority = [\n  "queue",\n  "queue" ] }')
      .replace(/^burst = .*$/m, 'queue = "300kB"');
    await page.fill("textarea", `${pqp}\n[sweep]\n"gate.rate" = ["1mbit", "2mbit"]\n`);
    await page.waitForFunction(() =>
      /varied by the sweep/.test(document.querySelector(".limiter")?.textContent),
    );
    await page.waitForSelector("button.primary:not([disabled])");
    await page.selectOption(".limiter select", "policer");
    await page.waitForFunction(() => /kind = "policer"/.test(document.querySelector("textarea").value));
    assert.doesNotMatch(await page.inputValue("textarea"), /policy|"queue"/);
    await page.waitForSelector("button.primary:not([disabled])");
  });
});

test("a tap's capture opens in Analyse, and is judged there", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    await run(page);
    assert.ok((await page.locator(".run canvas").count()) > 0);
    await page.click(".run p button:has-text('server')");
    await page.waitForSelector(".lines .cell.verdict.policer");
    assert.match(await page.textContent(".lines .cell.verdict"), /^policer 5\.\d+ Mbit\/s$/);
  });
});

test("a run is stopped, and another is started beside the first", async () => {
  await onLab({ hash: "#view=lab&scenario=policer-or-shaper" }, async (page) => {
    await run(page);
    const text = await page.inputValue("textarea");
    // Long enough that it does not end before it is stopped.
    const long = text.replace(/^duration = .*$/m, 'duration = "30min"');
    assert.notEqual(long, text);
    await page.fill("textarea", long);
    await page.waitForSelector("button.primary:not([disabled])");
    await page.click("button.primary");
    await page.click("text=Stop");
    await page.waitForSelector("button.primary:not([disabled])");
    assert.equal(await page.locator(".run").count(), 1);
    await page.fill("textarea", text.replace(/^title = .*$/m, 'title = "Again"'));
    await page.waitForFunction(() =>
      document.querySelector(".scenario [role=status]")?.textContent.startsWith("Again"),
    );
    await page.click("button.primary");
    await page.waitForFunction(() => document.querySelectorAll(".run").length === 2);
    assert.match(await page.textContent(".run h2"), /^2\. Again/);
    await accessible(page);
  });
});

const caret = (page, text) =>
  page.evaluate((text) => {
    const area = document.querySelector("textarea");
    area.focus();
    const at = area.value.indexOf(text) + text.length;
    area.setSelectionRange(at, at);
  }, text);
const offered = (page) => page.$$eval("#offered:not([hidden]) b", (all) => all.map((one) => one.textContent));

test("keys and values are completed as one types, by the keyboard alone", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    // As the command line documents them.
    const schema = execFileSync(program(), ["lab", "schema"], { encoding: "utf8" });
    const section = schema.slice(schema.indexOf('kind = "policer"'));
    const text = await page.inputValue("textarea");
    const line = /kind = "policer".*\n/.exec(text)[0];
    await caret(page, line);
    await page.keyboard.press("Control+Space");
    await page.waitForSelector("#offered:not([hidden])");
    const keys = await offered(page);
    assert.ok(keys.includes("overhead") && !keys.includes("rate"), keys.join());
    const doc = await page.textContent("#offered [role=option]:has-text('overhead') span");
    assert.ok(section.includes(doc.split(". ")[0].split(" (")[0].slice(0, 40)), doc);
    await accessible(page);
    await page.keyboard.type("over");
    await page.waitForFunction(() => document.querySelectorAll("#offered [role=option]").length === 1);
    await page.keyboard.press("Tab");
    await page.waitForFunction(() => document.querySelector("textarea").value.includes("overhead = "));
    await page.keyboard.type('"18B"\n');
    await page.waitForSelector("button.primary:not([disabled])");
    assert.equal(await page.locator(".scenario .problem").count(), 0);
    await caret(page, 'kind = "');
    await page.keyboard.press("Control+Space");
    await page.waitForSelector("#offered:not([hidden])");
    assert.ok((await offered(page)).includes("shaper"));
    await page.keyboard.press("Escape");
    assert.deepEqual(await offered(page), []);
  });
});

test("a slider changes the text, and a run with another scheme stands beside the first", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    await run(page);
    await page.locator(".limiter input").first().focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(() => /^rate = "4\.\d+mbit"/m.test(document.querySelector("textarea").value));
    await page.selectOption(".limiter select", "bc-pqp");
    await page.waitForFunction(() => /kind = "bc-pqp"/.test(document.querySelector("textarea").value));
    await page.waitForSelector("button.primary:not([disabled])");
    await page.click("button.primary");
    await page.waitForFunction(() => document.querySelectorAll(".run").length === 2, null, {
      timeout: PATIENCE,
    });
    const [second, first] = await page.$$eval(".run", (all) =>
      all.map((one) => one.getBoundingClientRect().top),
    );
    assert.equal(second, first);
    await accessible(page);
    if (process.env.UPDATE_SCREENSHOTS) {
      await page.setViewportSize({ width: 1440, height: 1160 });
      await page.waitForTimeout(500);
      await page.screenshot({ path: resolve(root, "docs/img/page-lab.png") });
    }
  });
});

test("a depth of the literature is taken by the keyboard", async () => {
  await onLab({ hash: "#view=lab&scenario=capture" }, async (page) => {
    // BDP² / 18 packets [BCPQP §3.5], for the scenario's 5 Mbit/s and 100 ms; CUBIC needs less there.
    const wanted = (5e6 * 0.1) ** 2 / 64 / 18 / 1500;
    await page.locator(".sizes input").focus();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("100");
    await page.keyboard.press("Enter");
    const taken = page.getByRole("button", { name: /^145 kB: a flow reaches the rate/ });
    assert.equal(Math.round(wanted / 1e3), 145);
    await taken.focus();
    await accessible(page);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^burst = "145kB"/m.test(document.querySelector("textarea").value));
    await page.waitForSelector("button.primary:not([disabled])");
  });
});

test("a simulation is drawn while it runs", async () => {
  await onLab({ hash: "#view=lab&scenario=policies" }, async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    const text = await page.inputValue("textarea");
    await page.fill("textarea", text.replace(/^duration = .*$/m, 'duration = "5000s"'));
    await page.waitForFunction(() =>
      /5000 s to/.test(document.querySelector(".scenario [role=status]").textContent),
    );
    await page.click("button.primary");
    await page.waitForSelector(".live canvas");
    const at = () => page.textContent(".live > p").then((told) => told);
    const before = await at();
    await page.waitForFunction(
      (before) => document.querySelector(".live > p").textContent !== before,
      before,
    );
    const painted = await page.$eval(".live canvas", (canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(painted > 10, `${painted} colours`);
    await accessible(page);
    await page.click("text=Stop");
    await page.waitForSelector(".live", { state: "detached" });
  });
});
