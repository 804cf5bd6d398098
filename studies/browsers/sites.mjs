// Real static sites: manuals that Debian packages. The packages are unpacked, not installed.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The least number of sites that makes a study. */
const LEAST = 30;

/** The packages and pages of sites.txt: a line has a package, and a page below /usr/share/doc; or only a package that others refer to. */
function list() {
  const text = readFileSync(join(import.meta.dirname, "sites.txt"), "utf8");
  const lines = text.split("\n").filter((line) => line && !line.startsWith("#"));
  return lines.map((line) => line.split(/\s+/));
}

/** Unpacks them, unless they are there. Returns the folder that is served, and the pages in it. */
export function sites(parent) {
  const folder = join(parent, "sites");
  if (!existsSync(folder)) {
    const draft = `${folder}.draft`;
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(join(draft, "packages"), { recursive: true });
    console.error("fetching the packages of sites.txt");
    const known = (name) => {
      const said = execFileSync("apt-cache", ["policy", name], { encoding: "utf8" });
      return /Candidate: [0-9]/.test(said);
    };
    const packages = list()
      .map(([name]) => name)
      .filter(known);
    const options = ["-q", "-o", "APT::Sandbox::User=root", "download", ...packages];
    execFileSync("apt-get", options, {
      cwd: join(draft, "packages"),
      stdio: ["ignore", "ignore", "inherit"],
    });
    for (const file of readdirSync(join(draft, "packages"))) {
      execFileSync("dpkg-deb", ["-x", join(draft, "packages", file), draft], { stdio: "inherit" });
    }
    rmSync(join(draft, "packages"), { recursive: true });
    renameSync(draft, folder);
  }
  const served = join(folder, "usr/share/doc");
  const pages = list()
    .map(([, page]) => page)
    .filter((page) => page && existsSync(join(served, page)));
  if (pages.length < LEAST) {
    throw new Error(
      `only ${pages.length} of the pages in sites.txt are there, and ${LEAST} are needed: this system packages them otherwise`,
    );
  }
  return { served, pages };
}

/** Three made-up pages, with which it can be tried whether all of this works where no package can be fetched. */
export function madeSites(parent) {
  const served = join(parent, "made");
  const pages = [1, 5, 15].map((pictures) => {
    const page = `${pictures}.html`;
    const names = Array.from({ length: pictures }, (_, index) => `${pictures}-${index}.svg`);
    const shown = names.map((name) => `<img src="${name}" alt="">`).join("");
    mkdirSync(served, { recursive: true });
    for (const [index, name] of names.entries()) {
      // Noise, since the server compresses.
      const noise = Array.from({ length: 200 }, (_, line) =>
        createHash("sha256").update(`${index} ${line}`).digest("base64"),
      );
      const circle = `<circle cx="20" cy="20" r="${index + 1}"/><!-- ${noise.join("\n")} -->`;
      const text = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40">${circle}</svg>`;
      writeFileSync(join(served, name), text);
    }
    writeFileSync(join(served, "style.css"), "body { color: black }");
    const head = '<!doctype html><title>A page</title><link rel="stylesheet" href="style.css">';
    writeFileSync(join(served, page), `${head}<p>A page with pictures</p>${shown}`);
    return page;
  });
  return { served, pages };
}
