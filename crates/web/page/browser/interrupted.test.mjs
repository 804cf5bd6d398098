// What a page does where something comes between: captures are closed while they are read, a file changes, an engine fails, another address is pasted.
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { explain, FIREFOX, open, root, staged, temporary, onPage as withPage } from "./serve.mjs";

const POLICED = resolve(root, "corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
const SHAPED = resolve(root, "corpus/shaped-1500kbit/shaped-1500kbit.pcap.xz");
const folder = temporary("interrupted");
const listed = ["policed.pcap.xz", "shaped.pcap.xz"].map((name) => join(folder, name));

const stage = staged(() => {
  for (const [i, path] of [POLICED, SHAPED].entries()) copyFileSync(path, listed[i]);
  return [folder];
});

/** The page with the key that the printed address has. */
const onPage = (work) => {
  const [address, key] = stage.server.address.split("#");
  return withPage({ ...stage, server: { ...stage.server, address } }, { hash: `#${key}` }, work);
};

/** A page that may complain, on which this ran before its own scripts. */
async function onAny(hash, before, work) {
  const context = await stage.browser.newContext({ viewport: { width: 1440, height: 1000 } });
  try {
    const page = await context.newPage();
    await page.addInitScript(before);
    await page.goto(stage.server.address.split("#")[0] + hash);
    await work(page);
  } finally {
    await context.close();
  }
}

/** Holds back questions of this kind to `tidegate web`, until `release`. */
const hold = (page, ask) =>
  page.evaluate((ask) => {
    globalThis.asks ??= globalThis.fetch;
    globalThis.held = 0;
    const free = new Promise((release) => {
      globalThis.release = release;
    });
    globalThis.fetch = async (path, options) => {
      if (options?.body?.includes(`"ask":"${ask}"`)) {
        globalThis.held += 1;
        const aborted = new Promise((_, fail) =>
          options.signal.addEventListener("abort", () => fail(options.signal.reason)),
        );
        await Promise.race([free, aborted]);
      }
      return globalThis.asks(path, options);
    };
  }, ask);

const held = (page) => page.waitForFunction(() => globalThis.held === 1);

/** Lets held questions go, and gives the page time to do something wrong. */
async function release(page) {
  await page.evaluate(() => globalThis.release());
  await page.waitForTimeout(1000);
}

/** Lets questions of this kind to `tidegate web` fail, as where it has ended; none if there is none. */
const fail = (page, ask) =>
  page.evaluate((ask) => {
    globalThis.asks ??= globalThis.fetch;
    globalThis.fetch = (path, options) =>
      ask && options?.body?.includes(`"ask":"${ask}"`)
        ? Promise.reject(new TypeError("Failed to fetch"))
        : globalThis.asks(path, options);
  }, ask);

const opened = (page) => page.$$eval(".captures li b", (all) => all.map((one) => one.textContent));

test("captures that were asked for are not opened after all were closed", async () => {
  await onPage(async (page) => {
    await page.waitForSelector(".folders tbody tr");
    await hold(page, "read");
    await page.click("text=Open these");
    await held(page);
    await page.click("text=Close all");
    await release(page);
    assert.deepEqual(await opened(page), []);
    // Nor beside those that a person drops.
    await hold(page, "read");
    await page.click("text=Open these");
    await held(page);
    await open(page, SHAPED);
    await release(page);
    assert.deepEqual(await opened(page), ["shaped-1500kbit.pcap.xz"]);
    assert.equal(await page.locator(".problem").count(), 0);
  });
});

test("a transfer that is left while its packets are read leaves nothing behind", async () => {
  await onPage(async (page) => {
    await page.click(`.folders button:has-text("policed")`);
    await explain(page, 0);
    await hold(page, "explain");
    await page.locator(".lines .row").nth(1).click();
    await held(page);
    await page.waitForSelector(".late");
    await page.click(".story button:text-is('Close')");
    await release(page);
    assert.equal(await page.locator(".late").count(), 0);
    await hold(page, "explain");
    await page.locator(".lines .row").nth(1).click();
    await held(page);
    await page.click("text=Close all");
    await release(page);
    assert.equal(await page.locator(".trouble, .late").count(), 0);
  });
});

test("an address that is pasted opens what is listed, and compares what it names", async () => {
  await onPage(async (page) => {
    await page.click(`.folders button:has-text("policed")`);
    await page.waitForSelector(".captures[aria-busy=false]");
    for (const [first, second] of [listed, listed.toReversed()]) {
      await page.evaluate(
        (fields) => {
          location.hash = new URLSearchParams(fields).toString();
        },
        { first, second },
      );
      await page.waitForFunction(
        (first) => document.querySelector(".comparison li")?.textContent.startsWith(`A  ${first}`),
        first,
      );
    }
    assert.equal(await page.locator(".awaited").count(), 0);
  });
});

test("a filter of the address holds until a person takes it away", async () => {
  await onAny("#find=policer", "", async (page) => {
    const find = ".table input[type=search]";
    await open(page, POLICED);
    await page.waitForSelector(find);
    assert.equal(await page.inputValue(find), "policer");
    await page.fill(find, "");
    await open(page, SHAPED);
    await page.waitForTimeout(500);
    assert.equal(await page.inputValue(find), "");
  });
});

test("an address that is pasted shows its own lines, whatever was chosen before", async () => {
  await onPage(async (page) => {
    await page.click(`.folders button:has-text("policed")`);
    await page.waitForSelector(".lines .row");
    const find = ".table input[type=search]";
    await page.fill(find, "nothing has this");
    const shows = async (hash, wanted) => {
      await page.evaluate((hash) => {
        location.hash = hash;
      }, hash);
      await page.waitForFunction(
        (wanted) => document.querySelector(".table [role=status]").textContent === wanted,
        `${wanted} of 10 transfers`,
      );
      assert.equal(await page.inputValue(find), "");
    };
    await shows("all=1&cause=policer", 5);
    await shows("all=1&sort=rtt", 10);
    assert.equal(await page.inputValue(".table select"), "");
    await shows("cause=policer", 5);
    // What was chosen just before a person leaves is there again.
    await page.selectOption(".table select", "");
    await page.fill(find, "nothing has this");
    await page.click(".views button:has-text('Lab')");
    await page.goBack();
    await page.waitForSelector(find);
    assert.equal(await page.inputValue(find), "nothing has this");
  });
});

test("a question that failed is told of, and is asked again", async () => {
  const trouble = async (page) => {
    await page.waitForSelector(".trouble");
    assert.match(await page.textContent(".trouble"), /tidegate web does not answer/);
  };
  await onPage(async (page) => {
    await page.waitForSelector(".folders tbody tr");
    await fail(page, "lines");
    await page.click(`.folders button:has-text("policed")`);
    await trouble(page);
    await fail(page, null);
    await page.click(".table [role=columnheader] button:has-text('RTT')");
    await page.waitForFunction(() => /policer/.test(document.querySelector(".lines .row").textContent));
    for (const [ask, key] of [
      ["panel", "+"],
      ["measure", "m"],
      ["packet-at", "l"],
    ]) {
      await fail(page, null);
      await explain(page, 0);
      assert.equal(await page.locator(".trouble").count(), 0);
      await fail(page, ask);
      await page.focus("section.picture");
      await page.keyboard.press(key);
      await trouble(page);
      assert.equal(await page.textContent(".said"), "");
      await page.click(".story button:text-is('Close')");
    }
    await fail(page, "summary");
    await page.click("text=Close all");
    await page.click(`.folders button:has-text("policed")`);
    await page.waitForSelector(".lines .row");
    assert.equal(await page.locator(".trouble").count(), 0);
    await page.click(".summary summary");
    await trouble(page);
  });
});

test("a key that is pasted into an open page is used", async () => {
  await onAny("", "", async (page) => {
    await page.waitForSelector(".trouble");
    assert.match(await page.textContent(".trouble"), /the key is missing or wrong/);
    await page.evaluate((hash) => {
      location.hash = hash;
    }, stage.server.address.split("#")[1]);
    await page.waitForSelector(".folders tbody tr");
    assert.equal(await page.locator(".trouble").count(), 0);
    assert.equal(new URL(page.url()).hash, "");
  });
});

test("a page keeps its captures while another one is loaded again, and says when it lost them", async () => {
  const hash = `#${stage.server.address.split("#")[1]}`;
  const rows = ".lines .row";
  await onAny(hash, "", async (page) => {
    await page.click(`.folders button:has-text("policed")`);
    await page.waitForSelector(rows);
    await onAny(hash, "", async (other) => {
      for (let i = 0; i < 9; i++) {
        await other.click(`.folders button:has-text("shaped")`);
        await other.waitForSelector(rows);
        await other.reload();
      }
    });
    await explain(page, 0);
    const [address, key] = stage.server.address.split("#key=");
    for (let desk = 0; desk < 8; desk++) {
      await fetch(`${address}api/desks/${desk}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}` },
        body: '{"ask":"columns"}',
      });
    }
    await page.locator(rows).nth(1).click();
    await page.waitForSelector(".trouble");
    assert.match(await page.textContent(".trouble"), /open the captures again/);
    assert.deepEqual(await opened(page), []);
    await page.click(`.folders button:has-text("policed")`);
    await explain(page, 1);
  });
});

/** Firefox reads what a file had when it was chosen. */
const skip = FIREFOX && "this browser reads a file that grew";
test("a capture that changed since it was read is named, not explained in part", { skip }, async () => {
  const path = join(folder, "grows.pcap.xz");
  copyFileSync(POLICED, path);
  await onPage(async (page) => {
    await open(page, path);
    await page.waitForSelector(".lines .row");
    appendFileSync(path, "more");
    await page.locator(".lines .row").first().click();
    await page.waitForSelector(".trouble");
    const said = await page.textContent(".trouble");
    assert.match(said, /grows\.pcap\.xz: .*the browser cannot read the file.*open it again/);
    assert.equal(await page.locator(".story").count(), 0);
  });
});

test("a listed capture that changed is read again, in place of what it was", async () => {
  const path = join(folder, "changes.pcap.xz");
  copyFileSync(POLICED, path);
  try {
    await onAny(`#${stage.server.address.split("#")[1]}`, "", async (page) => {
      const click = () => page.click(`.folders button:has-text("changes")`);
      const verdicts = (cause) =>
        page.waitForFunction((cause) => {
          const cells = [...document.querySelectorAll(".lines .verdict")].map((cell) => cell.textContent);
          return cells.length === 5 && cells.every((text) => text.startsWith(cause));
        }, cause);
      await click();
      await verdicts("policer");
      await explain(page, 0);
      await click();
      await page.waitForSelector(".trouble");
      assert.match(
        await page.textContent(".trouble"),
        /changes\.pcap\.xz is open already, and its size has not changed/,
      );
      assert.equal(await page.locator(".panel canvas").count(), 8);
      copyFileSync(SHAPED, path);
      await click();
      await verdicts("queue");
      assert.equal((await opened(page)).length, 1);
      assert.equal(await page.locator(".trouble, .story").count(), 0);
      // One that could not be read is tried again, whatever its size.
      await page.click("text=Close all");
      rmSync(path);
      await click();
      await page.waitForSelector(".captures .problem");
      copyFileSync(SHAPED, path);
      await click();
      await verdicts("queue");
      assert.equal(await page.locator(".captures .problem").count(), 0);
    });
  } finally {
    rmSync(path, { force: true });
  }
});

test("an address with times beyond the transfer shows the transfer", async () => {
  const place = "capture=policed-1500kbit.pcap.xz&flow=0&segment=0&side=server";
  await onAny(`#${place}&from=100&to=110`, "", async (page) => {
    await open(page, POLICED);
    await page.waitForSelector(".panel canvas");
    await page.waitForFunction(() => !location.hash.includes("from=100"));
    const fields = new URLSearchParams(new URL(page.url()).hash.slice(1));
    assert.ok(Number(fields.get("from")) < Number(fields.get("to")) && Number(fields.get("to")) < 20, fields);
  });
});

/** Keeps the page's workers, and what they are asked. */
const WATCH = `
  globalThis.workers = [];
  globalThis.asked = [];
  globalThis.Worker = class extends Worker {
    constructor(...options) {
      super(...options);
      workers.push(this);
    }
    postMessage(message, ...rest) {
      if (message.request) asked.push(message.request.ask);
      super.postMessage(message, ...rest);
    }
  };
`;

test("an engine that failed is told of, with what to do", async () => {
  await onAny("", WATCH, async (page) => {
    await open(page, POLICED);
    await page.waitForSelector(".lines .row");
    // As where the engine runs out of memory.
    await page.evaluate(() => {
      const data = { id: -1, error: "RuntimeError: unreachable", fatal: true };
      globalThis.workers[0].onmessage({ data });
    });
    await page.waitForSelector(".trouble");
    assert.match(await page.textContent(".trouble"), /the engine failed .* open the captures again/);
    assert.deepEqual(await opened(page), []);
    await open(page, POLICED);
    await explain(page, 0);
    assert.equal(await page.locator(".trouble").count(), 0);
  });
});

test("while the table is searched, only what was typed last is asked next", async () => {
  await onAny("", WATCH, async (page) => {
    await open(page, POLICED);
    await page.waitForSelector(".lines .row");
    await page.evaluate(() => {
      globalThis.asked.length = 0;
      const find = document.querySelector(".table input[type=search]");
      for (const text of ["p", "po", "pol", "poli", "polic", "nothing has this"]) {
        find.value = text;
        find.dispatchEvent(new InputEvent("input", { bubbles: true }));
      }
    });
    await page.waitForFunction(() =>
      document.querySelector(".table [role=status]").textContent.startsWith("0 of"),
    );
    const asked = await page.evaluate(() => globalThis.asked.filter((ask) => ask === "arrange").length);
    assert.equal(asked, 2);
  });
});

test("the transfers of a capture are shown before the next one is read", async () => {
  await onAny("", WATCH, async (page) => {
    await open(page, [POLICED, SHAPED]);
    const asked = await page.evaluate(() => globalThis.asked);
    const lines = asked.indexOf("lines");
    assert.ok(lines >= 0 && lines < asked.lastIndexOf("read"), asked.join());
  });
});

test("an engine that cannot start is told of wherever it is asked", async () => {
  const none = "WebAssembly.compileStreaming = WebAssembly.compile = () => Promise.reject(new Error('no'));";
  const said = /the engine could not be started/;
  await onAny("", none, async (page) => {
    await page.waitForSelector("header");
    await page.waitForTimeout(500);
    await page.setInputFiles("input[type=file]", POLICED);
    await page.waitForSelector(".captures .problem");
    assert.match(await page.textContent(".captures .problem"), said);
    await page.click(".views button:has-text('Lab')");
    await page.waitForSelector(".scenario .problem");
    assert.match(await page.textContent(".scenario .problem"), said);
  });
});

test("a study's scenario that comes late does not replace what was chosen since", async () => {
  await onAny("#view=lab", "", async (page) => {
    await page.waitForSelector("button.primary:not([disabled])");
    let go;
    const free = new Promise((release) => {
      go = release;
    });
    let asked = 0;
    await page.route("**/assets/*.js", async (route) => {
      asked += 1;
      await free;
      await route.continue();
    });
    await page.selectOption(".scenario select", "bcpqp-figure4/scenario");
    await page.selectOption(".scenario select", "capture");
    const text = await page.inputValue("textarea");
    go();
    await page.waitForTimeout(500);
    assert.equal(asked, 1);
    assert.equal(await page.inputValue("textarea"), text);
    assert.equal(await page.inputValue(".scenario select"), "capture");
  });
});
