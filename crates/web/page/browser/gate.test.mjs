// The view of a gate, on a real one between two devices of a network namespace. As root; skipped elsewhere.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { accessible, browse, fits, onPage, program, root, serve, temporary } from "./serve.mjs";

const skip = process.getuid() === 0 ? false : "needs root";
const folder = temporary("gate");
const file = join(folder, "gate.toml");
const control = join(folder, "state/control.sock");

const CONFIGURATION = `
state = "${folder}/state"
pins = "/sys/fs/bpf/tidegate-page-${process.pid}"
events = "${folder}/events.jsonl"
[api]
listen = "unix:${folder}/api.sock"
token = "${folder}/api.token"
read-token = "${folder}/read.token"
[[interface]]
name = "wan"
side = "core"
[[interface]]
name = "lan"
side = "access"
[watch]
flows = 1024
[[node]]
name = "site"
down = "50mbit"
up = "10mbit"
[[node]]
name = "mast"
parent = "site"
down = "6mbit"
up = "10mbit"
[plan.home]
down = "8mbit"
up = "2mbit"
[plan.slow]
down = "1mbit"
up = "1mbit"
[[subscriber]]
name = "alice"
plan = "home"
addresses = "192.0.2.16"
[[subscriber]]
name = "bob"
plan = "home"
parent = "mast"
addresses = "192.0.2.17"
[pair]
peer = "127.0.0.1:9642"
token = "${folder}/api.token"
`;

// The other one of the pair, between devices of its own.
const OTHER = CONFIGURATION.replace(/\[pair\](.|\n)*/, "")
  .replace(/"(wan|lan)"/g, '"$12"')
  .replace(`listen = "unix:${folder}/api.sock"`, 'listen = "127.0.0.1:9642"')
  .replace(`"${folder}/state"`, `"${folder}/other"`)
  .replace("tidegate-page-", "tidegate-page-other-");

// Frames that leave "core" come in at "wan". Alice gets 16 Mbit/s from four ports, bob one from one.
const TRAFFIC = `
const socket = require("node:dgram").createSocket("udp4");
const payload = Buffer.alloc(1400);
setInterval(() => {
  for (let i = 0; i < 15; i++) socket.send(payload, 9000 + (i % 4), "192.0.2.16");
  socket.send(payload, 9000, "192.0.2.17");
}, 10);
`;

const SPACE = `
set -e
ip link set lo up
ip link add wan type veth peer name core
ip link add lan type veth peer name home
ip link add wan2 type veth peer name lan2
for device in wan core lan home wan2 lan2; do ip link set $device up; done
ip address add 192.0.2.1/24 dev core
for host in 16 17; do ip neighbour add 192.0.2.$host lladdr 02:00:00:00:00:$host dev core; done
node -e "$TRAFFIC" &
"$TIDEGATE" gate run "$FILE.other" &
echo $! >"$FILE.pid"
exec "$TIDEGATE" gate run "$FILE"
`;

let gate;
let shown;
let changed;
let reader;
let browser;

const told = (path) =>
  JSON.parse(
    execFileSync("curl", ["-sS", "--unix-socket", control, `http://gate${path}`], { encoding: "utf8" }),
  );

before(async () => {
  if (skip) return;
  writeFileSync(file, CONFIGURATION);
  writeFileSync(`${file}.other`, OTHER);
  for (const name of ["api", "read"]) {
    writeFileSync(join(folder, `${name}.token`), `${name}-0123456789abcdef`, { mode: 0o600 });
  }
  gate = spawn("unshare", ["-n", "sh", "-c", SPACE], {
    env: { ...process.env, TIDEGATE: program(), FILE: file, TRAFFIC },
    stdio: ["ignore", "ignore", "inherit"],
    detached: true,
  });
  for (let i = 0; ; i++) {
    try {
      told("/v1/status");
      break;
    } catch (error) {
      if (i > 100) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
  const api = (token) => [
    "--gate",
    `unix:${folder}/api.sock`,
    "--gate-token",
    join(folder, `${token}.token`),
  ];
  shown = await serve(api("api"));
  changed = await serve([...api("api"), "--gate-change"]);
  reader = await serve([...api("read"), "--gate-change"]);
  browser = await browse();
});
after(async () => {
  await browser?.close();
  shown?.end();
  changed?.end();
  reader?.end();
  if (!gate) return;
  try {
    // What keeps the limits in force after the gate's end. With the first gate the namespace may end.
    for (const state of ["other", "state"]) {
      execFileSync("nsenter", [
        `--net=/proc/${gate.pid}/ns/net`,
        program(),
        "gate",
        "down",
        "--state",
        join(folder, state),
      ]);
    }
  } finally {
    // Sends on for ever otherwise, and the tests would not end.
    process.kill(-gate.pid);
  }
});

const onGate = (server, context, work) =>
  onPage(
    { browser, server: { ...server, address: server.address.split("#")[0] } },
    { hash: `#${server.address.split("#")[1]}`, ...context },
    work,
  );
const ROWS = ".gate [aria-label=Subscribers] tbody tr";
const row = (page, name) => page.locator(ROWS, { hasText: name });
// Alice's four flows fill four queues. Other queues may have had their first packets, and are empty since.
const queued = () => {
  const lengths = document.querySelectorAll(".subscriber [aria-label=Queues] tbody td:nth-child(4)");
  return [...lengths].filter((cell) => cell.textContent !== "0 B").length === 4;
};
const mbit = (text) => Number(/([\d.]+) Mbit\/s/.exec(text)?.[1]);

test("rates, drops and the heaviest subscribers are those of the gate", { skip }, async () => {
  await onGate(shown, {}, async (page) => {
    await page.waitForFunction(
      (rows) => /\d Mbit\/s of/.test(document.querySelector(rows)?.textContent),
      ROWS,
    );
    await page.waitForTimeout(5000);
    const rows = await page.$$eval(`${ROWS} th`, (heads) => heads.map((head) => head.textContent));
    assert.deepEqual(rows, ["alice", "bob"]);
    // What the gate itself counts in the meantime.
    const [early, begun] = [told("/v1/subscribers/alice").down, performance.now()];
    await page.waitForTimeout(4000);
    const [late, took] = [told("/v1/subscribers/alice").down, (performance.now() - begun) / 1e3];
    const wanted = ((late.passed_bytes - early.passed_bytes) * 8) / took / 1e6;
    const seen = mbit(await row(page, "alice").locator("td").nth(1).textContent());
    assert.ok(Math.abs(seen / wanted - 1) < 0.15, `${seen} shown, ${wanted} counted`);
    const drops = mbit(await row(page, "alice").locator("td").nth(3).textContent());
    const counted = ((late.excess_bytes - early.excess_bytes) * 8) / took / 1e6;
    assert.ok(Math.abs(drops / counted - 1) < 0.25, `${drops} shown, ${counted} counted`);
    await row(page, "alice").locator("button").press("Enter");
    await page.waitForSelector(".subscriber canvas");
    await page.waitForFunction(queued);
    assert.match(await page.textContent(".subscriber"), /This page only shows the gate.*--gate-change/);
    assert.equal(await page.locator("form.change").count(), 0);
    // The address names the subscriber, and brings it back.
    assert.match(page.url(), /subscriber=alice/);
    await page.reload();
    await page.waitForSelector(".subscriber canvas");
    assert.equal(await page.textContent(".subscriber h2"), "alice");
    await page.waitForFunction(queued);
    await accessible(page);
    // The gate watches four flows of hers, and the page shows what all of them get.
    await page.waitForFunction(() => document.querySelectorAll(".flows tbody tr").length === 4);
    await page.waitForFunction(() =>
      [...document.querySelectorAll(".flows tbody td:nth-child(2)")].every((cell) =>
        /\d Mbit/.test(cell.textContent),
      ),
    );
    const flows = await page.$$eval(".flows tbody tr", (rows) =>
      rows.map((row) => row.children[0].textContent),
    );
    assert.deepEqual(
      flows.map((name) => /^udp 192\.0\.2\.16:(900\d) – 192\.0\.2\.1:\d+$/.exec(name)?.[1]).sort(),
      ["9000", "9001", "9002", "9003"],
    );
    const rates = await page.$$eval(".flows tbody td:nth-child(2)", (cells) =>
      cells.map((cell) => cell.textContent),
    );
    const together = rates.reduce((sum, text) => sum + Number(/([\d.]+) Mbit/.exec(text)[1]), 0);
    assert.ok(Math.abs(together / wanted - 1) < 0.15, `${rates} of ${wanted}`);
    await fits(page);
    if (process.env.UPDATE_SCREENSHOTS) {
      await page.waitForTimeout(20_000);
      await page.setViewportSize({ width: 1440, height: 1000 });
      await page.waitForTimeout(2500);
      await page.screenshot({ path: resolve(root, "docs/img/page-gate.png"), fullPage: true });
    }
    // Shared capacities: those above bob, with what passes there.
    const nodes = await page.$$eval(".nodes tbody tr", (rows) => rows.map((row) => row.textContent));
    assert.equal(nodes.length, 2);
    for (const [i, head] of [
      /^mastsite(.*) of 6\.00 Mbit\/s100 %/,
      /^site-(.*) of 50\.0 Mbit\/s100 %/,
    ].entries()) {
      const [, passes] = head.exec(nodes[i]) ?? assert.fail(nodes[i]);
      const rate = parseFloat(passes) * (passes.endsWith("kbit/s") ? 1e3 : 1e6);
      // Bob is sent 1.14 Mbit/s.
      assert.ok(0.5e6 < rate && rate < 2e6, passes);
    }
    await page.fill(".gate input[type=search]", "bo");
    await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, ROWS);
  });
});

test("a plan is changed when a person confirms it, and taken back", { skip }, async () => {
  await onGate(changed, { colorScheme: "dark" }, async (page) => {
    await row(page, "bob").locator("button").press("Enter");
    const field = (title) => page.getByLabel(title, { exact: true });
    await field("Plan").fill("slow");
    await field("Rate down").fill("3mbit");
    await field("Rate down").press("Enter");
    await page.waitForSelector("dialog[open]");
    assert.match(
      await page.textContent("dialog"),
      /Plan: home becomes slow.*Rate down: 8\.00 Mbit\/s becomes 3mbit/,
    );
    await accessible(page);
    await page.keyboard.press("Escape");
    assert.equal(told("/v1/subscribers/bob").set, false);
    await field("Rate down").press("Enter");
    await page.click("dialog .primary");
    await page.waitForFunction(
      () => document.querySelector("form.change [role=status]").textContent === "Changed.",
    );
    const bob = told("/v1/subscribers/bob");
    assert.deepEqual([bob.set, bob.down.rate, bob.up.rate], [true, 3_000_000, 1_000_000]);
    await page.click("text=Reset…");
    await page.click("dialog .primary");
    await page.waitForFunction(() =>
      document.querySelector("form.change [role=status]").textContent.startsWith("The file"),
    );
    assert.equal(told("/v1/subscribers/bob").down.rate, 8_000_000);
    // What happened, as the gate's log has it: the latest first.
    await page.waitForFunction(() => document.querySelectorAll(".events tbody tr").length === 2);
    const lines = await page.$$eval(".events tbody tr", (rows) => rows.map((row) => row.textContent));
    assert.match(lines[0], /set.*reset/);
    assert.match(lines[1], /set.*down 3\.00 Mbit\/s; plan slow/);
    await accessible(page);
    await fits(page);
  });
});

test("the page says whether the gate follows the other one of its pair", { skip }, async () => {
  await onGate(shown, {}, async (page) => {
    const says = (pattern) =>
      page.waitForFunction(
        (wanted) => new RegExp(wanted).test(document.querySelector(".gate .facts")?.textContent),
        pattern,
      );
    await says("follows 127.0.0.1:9642 for .* ago; it never asked this gate");
    process.kill(Number(readFileSync(`${file}.pid`, "utf8")));
    await says("DOES NOT FOLLOW 127.0.0.1:9642, did .* ago: .+; it never asked");
  });
});

test("a token that only reads shows the gate and changes nothing", { skip }, async () => {
  await onGate(reader, {}, async (page) => {
    await row(page, "bob").locator("button").press("Enter");
    await page.waitForSelector(".subscriber canvas");
    assert.match(await page.textContent(".subscriber"), /only shows the gate.*this one only reads/);
    assert.equal(await page.locator("form.change").count(), 0);
  });
});

test("without the key of the address, the server tells nothing of the gate", { skip }, async () => {
  const [address] = changed.address.split("#");
  const key = new URLSearchParams(changed.address.split("#")[1]).get("key");
  const ask = (path, headers, method = "GET") => fetch(`${address}gate/${path}`, { headers, method });
  assert.equal((await ask("v1/status", {})).status, 401);
  assert.equal((await ask("v1/status", { Authorization: `Bearer ${key.slice(1)}0` })).status, 401);
  const ours = { Authorization: `Bearer ${key}` };
  assert.equal((await ask("v1/status", ours)).status, 200);
  assert.equal((await ask("v1/stop", ours, "POST")).status, 404);
  assert.equal((await ask("v1/subscribers/nobody", ours)).status, 404);
  const [looking] = shown.address.split("#");
  const its = new URLSearchParams(shown.address.split("#")[1]).get("key");
  const refused = await fetch(`${looking}gate/v1/subscribers/bob`, {
    method: "PATCH",
    headers: { Authorization: `Bearer ${its}`, "Content-Type": "application/json" },
    body: '{"down": "1mbit"}',
  });
  assert.equal(refused.status, 403);
  assert.equal(told("/v1/subscribers/bob").down.rate, 8_000_000);
});

test("the view says how to start it where there is no gate", async () => {
  const own = await serve();
  const local = browser ?? (await browse());
  try {
    await onPage({ browser: local, server: own }, { hash: "#view=gate" }, async (page) => {
      assert.match(await page.textContent("main"), /tidegate web --gate unix:/);
      await accessible(page);
    });
  } finally {
    own.end();
    if (!browser) await local.close();
  }
});
