// A video of moving pictures in six qualities, as a live encoder makes them: with a constant bit rate. The lab's videos have it too.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Width, and kbit/s. These are the rates of the study bcpqp-figure7. */
export const QUALITIES = [
  [240, 110],
  [320, 250],
  [426, 420],
  [640, 800],
  [854, 1500],
  [1280, 2800],
];
export const SEGMENT = 4;

/** Encodes a video of this many seconds, unless it is there. Returns its folder. */
export function ladder(parent, seconds) {
  const folder = join(parent, `video-${seconds}`);
  if (existsSync(folder)) return folder;
  console.error(`encoding ${seconds} s of video in ${QUALITIES.length} qualities`);
  // Another run may encode it at the same time.
  const draft = `${folder}.${process.pid}`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  const frames = 25 * SEGMENT;
  const words = ["-hide_banner", "-loglevel", "error", "-f", "lavfi"];
  words.push("-i", "testsrc2=size=1280x720:rate=25", "-t", String(seconds));
  for (const [index, [width, rate]] of QUALITIES.entries()) {
    const height = 2 * Math.round((width * 9) / 32);
    words.push("-map", "0:v", `-filter:v:${index}`, `scale=${width}:${height}`);
    for (const key of ["b", "maxrate"]) words.push(`-${key}:v:${index}`, `${rate}k`);
    words.push(`-bufsize:v:${index}`, `${rate * SEGMENT}k`);
  }
  const x264 = `nal-hrd=cbr:force-cfr=1:keyint=${frames}:min-keyint=${frames}:scenecut=0`;
  words.push("-c:v", "libx264", "-preset", "ultrafast", "-x264-params", x264, "-pix_fmt", "yuv420p");
  words.push("-f", "dash", "-seg_duration", String(SEGMENT), "-use_timeline", "0", "-hls_playlist", "1");
  words.push("-adaptation_sets", "id=0,streams=v", join(draft, "video.mpd"));
  execFileSync("ffmpeg", words, { stdio: "inherit" });
  // ffmpeg asks for two segments in the buffer. dash.js keeps the first quality until then; [Spiteri18] has no such rule.
  const manifest = join(draft, "video.mpd");
  const text = readFileSync(manifest, "utf8");
  writeFileSync(manifest, text.replace(/minBufferTime="[^"]*"/, `minBufferTime="PT${SEGMENT}S"`));
  renameSync(draft, folder);
  return folder;
}

/** Bytes of the manifest and of a segment's beginning, which the player fetches first. */
export function beginning(folder) {
  return ["video.mpd", "init-stream2.m4s"].map((file) => statSync(join(folder, file)).size);
}

/** The sizes of the segments over what their rates say: means over the qualities. */
export function sizes(folder, seconds) {
  const count = Math.ceil(seconds / SEGMENT);
  return Array.from({ length: count }, (_, segment) => {
    const over = QUALITIES.map(([, rate], quality) => {
      const name = `chunk-stream${quality}-${String(segment + 1).padStart(5, "0")}.m4s`;
      return statSync(join(folder, name)).size / ((rate * 1000 * SEGMENT) / 8);
    });
    return Number((over.reduce((sum, one) => sum + one, 0) / over.length).toFixed(3));
  });
}
