// Chromium fetches a video from `tidegate serve` by HTTP/3. Skipped where there is no openssl, which makes the certificate, and in Firefox.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { browse, program, temporary } from "./serve.mjs";

const openssl = spawnSync("openssl", ["version"]).status === 0;
const firefox = process.env.PAGE_BROWSER === "firefox-esr";
const skip = firefox ? "Chromium only" : openssl ? false : "needs openssl";

/** Serves a folder by HTTP/3 too; the port, and how to end it. */
async function serve(folder, certificate, key) {
  const words = ["serve", folder, "--listen", "127.0.0.1:0", "--http3", "--start-up", "1s"];
  words.push("--cert", certificate, "--key", key, "--log", join(folder, "log"));
  const server = spawn(program(), words, { stdio: ["ignore", "inherit", "pipe"] });
  const port = await new Promise((found, failed) => {
    let said = "";
    server.stderr.on("data", (data) => {
      said += data;
      const port = said.match(/https:\/\/127\.0\.0\.1:(\d+)/);
      if (port) found(Number(port[1]));
    });
    server.once("exit", () => failed(new Error(said)));
  });
  return { port, end: () => server.kill() };
}

test("Chromium fetches a paced video by HTTP/3", { skip }, async () => {
  const folder = temporary("http3");
  const [certificate, key] = [join(folder, ".cert.pem"), join(folder, ".key.pem")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9"];
  const name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const files = ["-keyout", key, "-out", certificate];
  execFileSync("openssl", ["req", "-x509", ...curve, ...name, ...files], { stdio: "ignore" });
  // 1 Mbit/s: 125 kB at once, then 156 kB/s.
  const video = ["make-video", join(folder, "v.mp4"), "--duration", "20s", "--rate", "1mbit"];
  execFileSync(program(), video);
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>t</title>");
  const { publicKey } = new X509Certificate(readFileSync(certificate));
  const pin = createHash("sha256").update(publicKey.export({ type: "spki", format: "der" }));
  const server = await serve(folder, certificate, key);
  const browser = await browse([
    `--origin-to-force-quic-on=localhost:${server.port}`,
    `--ignore-certificate-errors-spki-list=${pin.digest("base64")}`,
    "--host-resolver-rules=MAP localhost 127.0.0.1",
  ]);
  try {
    const page = await browser.newPage();
    await page.goto(`https://localhost:${server.port}/`);
    const seen = await page.evaluate(async () => {
      const begin = performance.now();
      const response = await fetch("v.mp4", { headers: { range: "bytes=0-499999" } });
      const { byteLength } = await response.arrayBuffer();
      const [entry] = performance.getEntriesByName(response.url);
      const took = (performance.now() - begin) / 1000;
      return { status: response.status, byteLength, protocol: entry.nextHopProtocol, took };
    });
    assert.deepEqual([seen.status, seen.byteLength, seen.protocol], [206, 500_000, "h3"]);
    // The start-up, and 375 kB at the rate.
    assert.ok(seen.took > 2.2 && seen.took < 3.2, `${seen.took} s`);
  } finally {
    await browser.close();
    server.end();
  }
  assert.match(readFileSync(join(folder, "log"), "utf8"), /GET \/v\.mp4 HTTP\/3\.0" 206/);
});
