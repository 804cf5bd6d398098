// Real static sites: manuals that Debian packages. The packages are unpacked, not installed.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
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
