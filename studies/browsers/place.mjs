// The network of the study: a server in a network namespace, and a machine beside it on which shells are opened. Both vanish with this
// process.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Where builds are. */
export const target = process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, "../../target");

/**
 * The program to study: the one that TIDEGATE_PROGRAM names, or the latest build. Starts this script a second time, in a network of its own that
 * vanishes with it, and goes on only there.
 */
export function programInOwnNetwork(study) {
  const program =
    process.env.TIDEGATE_PROGRAM ??
    ["release", "debug"].map((profile) => join(target, profile, "tidegate")).find(existsSync);
  if (!program) throw new Error("no tidegate was built: run make program, or name it in TIDEGATE_PROGRAM");
  if (process.getuid() !== 0) {
    console.error(`${study}: needs root, for network namespaces`);
    process.exit(3);
  }
  if (!process.env.TIDEGATE_STUDY_INSIDE) {
    const words = ["--net", "--", process.execPath, ...process.argv.slice(1)];
    const env = { ...process.env, TIDEGATE_STUDY_INSIDE: "1", TIDEGATE_PROGRAM: program };
    process.exit(spawnSync("unshare", words, { stdio: "inherit", env }).status ?? 1);
  }
  return program;
}

/** The server's address, and the port of nginx. */
export const SERVER = "192.0.2.1";
const HTTPS = 443;

/** Runs a program to its end. */
export function run(program, ...words) {
  return execFileSync(program, words, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Words for setpriv: a program ends when this process does, even if it is killed. */
const WITH_US = ["--pdeathsig", "TERM"];

/** A process in a network of its own. It holds the network. */
async function namespace() {
  const ours = readlinkSync("/proc/self/ns/net");
  const words = [...WITH_US, "unshare", "--net", "sleep", "infinity"];
  const holder = spawn("setpriv", words, { stdio: "ignore" });
  const net = () => readlinkSync(`/proc/${holder.pid}/ns/net`);
  while (net() === ours) await pause(10);
  return holder;
}

/** Serves `/video` and `/sites` over HTTP/2 with nginx. */
function configuration(folder, { video, sites }) {
  return `daemon off;
worker_processes 1;
user root;
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 256; }
http {
  access_log off;
  sendfile on;
  include /etc/nginx/mime.types;
  client_body_temp_path ${folder}/nginx;
  proxy_temp_path ${folder}/nginx;
  fastcgi_temp_path ${folder}/nginx;
  uwsgi_temp_path ${folder}/nginx;
  scgi_temp_path ${folder}/nginx;
  gzip on;
  gzip_types text/css application/javascript image/svg+xml;
  server {
    listen ${HTTPS} ssl http2;
    ssl_certificate ${folder}/cert.pem;
    ssl_certificate_key ${folder}/key.pem;
    location /video/ { alias ${video}/; add_header Access-Control-Allow-Origin *; }
    location /sites/ { alias ${sites}/; }
  }
}
`;
}

/** Opens the network. `folder` is for temporary files. Without content to serve there is only a number of servers for downloads. */
export async function open(folder, content) {
  mkdirSync(join(folder, "nginx"), { recursive: true });
  const { downloads = 1 } = content;
  const request =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=tidegate";
  const files = ["-keyout", `${folder}/key.pem`, "-out", `${folder}/cert.pem`];
  execFileSync("openssl", [...request.split(" "), ...files], { stdio: "ignore" });
  writeFileSync(join(folder, "nginx.conf"), configuration(folder, content));
  const holder = await namespace();
  const ip = (words) => run("ip", ...words.split(" "));
  const inside = (words) => run("nsenter", "-t", holder.pid, "-n", ...words.split(" "));
  ip(`link add wan up type veth peer name eth0 netns ${holder.pid}`);
  ip("link set lo up");
  ip("address add 192.0.2.2/24 dev wan");
  ip("route add default via 192.0.2.1");
  inside("ip link set lo up");
  inside("ip link set eth0 up");
  inside(`ip address add ${SERVER}/24 dev eth0`);
  // nginx's connections have routes of their own, so that their congestion control can be chosen. All others begin with CUBIC: a connection
  // that began with BBR, which may be this machine's default, is paced for good, also after iperf3 has chosen CUBIC for it.
  inside(`ip rule add sport ${HTTPS} lookup ${HTTPS}`);
  inside("ip route replace 192.0.2.0/24 dev eth0 congctl cubic");
  // As servers of video have it. Connections learn nothing from earlier ones.
  inside("sysctl -qw net.ipv4.tcp_slow_start_after_idle=0 net.ipv4.tcp_no_metrics_save=1");
  const enter = ["-t", holder.pid, "-n"];
  const start = (...words) =>
    spawn("setpriv", [...WITH_US, "nsenter", ...enter, ...words], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  const servers = content.video ? [start("nginx", "-c", join(folder, "nginx.conf"))] : [];
  // Downloads choose their congestion control by themselves.
  const ports = Array.from({ length: downloads }, (_, index) => String(5201 + index));
  const listen = () => ports.map((port) => start("iperf3", "-s", "-p", port));
  let listening = listen();
  await pause(500);
  return {
    /** Starts a program on the server, which ends with this process. Its standard output is dropped. */
    start: (...words) => {
      servers.push(start(...words));
    },
    /** The congestion control of nginx's connections from now on. A route can name any that the kernel has. */
    congestion: (cc) => inside(`ip route replace table ${HTTPS} 192.0.2.0/24 dev eth0 congctl ${cc}`),
    /** New servers for downloads: the end of a shell may not have reached the old ones. */
    renew: async () => {
      const ended = listening.map((process) => new Promise((done) => process.on("exit", done)));
      for (const process of listening) process.kill("SIGKILL");
      await Promise.all(ended);
      listening = listen();
      await pause(500);
    },
    close: () => {
      for (const process of [...servers, ...listening, holder]) process.kill();
    },
  };
}
