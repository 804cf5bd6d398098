// Plays one video with dash.js, and notes what its viewer sees. `play` is called by viewer.mjs.

/** How often the player's buffer is looked at, in milliseconds. */
const LEVELS = 250;
/** With fewer seconds to play, a video is over. */
const END = 0.02;

const RULES = [
  "throughputRule",
  "bolaRule",
  "insufficientBufferRule",
  "switchHistoryRule",
  "droppedFramesRule",
  "abandonRequestsRule",
];

/** One rule alone decides, so that it is known which. All other values are those of dash.js. */
function settings({ rule, buffer, initial }) {
  const active = (name) => [name, { active: name === `${rule}Rule` }];
  return {
    streaming: {
      // The throughput of an earlier visit would choose the first segment.
      lastBitrateCachingInfo: { enabled: false },
      buffer: {
        bufferTimeDefault: buffer,
        bufferTimeAtTopQuality: buffer,
        bufferTimeAtTopQualityLongForm: buffer,
        fastSwitchEnabled: false,
      },
      abr: {
        initialBitrate: { video: initial },
        limitBitrateByPortal: false,
        rules: Object.fromEntries(RULES.map(active)),
      },
    },
  };
}

/** Plays the video of a manifest to its end, or for `limit` seconds. Times are in seconds from the request on. */
function play({ manifest, limit, ...options }) {
  const video = document.querySelector("video");
  const player = dashjs.MediaPlayer().create();
  const began = performance.now();
  const now = () => (performance.now() - began) / 1000;
  const seen = {
    epoch: (performance.timeOrigin + began) / 1000,
    join: null,
    waits: 0,
    segments: [],
    levels: [],
  };
  video.addEventListener("playing", () => {
    seen.join ??= now();
  });
  video.addEventListener("waiting", () => {
    seen.waits += seen.join === null ? 0 : 1;
  });
  const { FRAGMENT_LOADING_STARTED, FRAGMENT_LOADING_COMPLETED, ERROR } = dashjs.MediaPlayer.events;
  /** The player's state when it asked for the latest segment: video in its buffer, and the throughput by which it chose, in kbit/s. */
  let asked;
  player.on(FRAGMENT_LOADING_STARTED, ({ request }) => {
    if (request.type !== "MediaSegment") return;
    asked = {
      buffer: player.getBufferLength("video"),
      throughput: player.getAverageThroughput("video") || null,
    };
  });
  player.on(FRAGMENT_LOADING_COMPLETED, ({ request }) => {
    if (request.type !== "MediaSegment") return;
    seen.segments.push({
      ...asked,
      rate: request.representation.bandwidth,
      bytes: request.bytesTotal,
      start: request.startDate / 1000 - seen.epoch,
      first: request.firstByteDate / 1000 - seen.epoch,
      end: request.endDate / 1000 - seen.epoch,
    });
  });
  let finish;
  const ended = new Promise((done) => {
    finish = () => {
      clearInterval(timer);
      done({ ...seen, end: now(), played: video.currentTime });
    };
  });
  video.addEventListener("ended", finish);
  player.on(ERROR, (event) => {
    seen.error ??= String(event.error?.message ?? event.error);
    finish();
  });
  setTimeout(finish, limit * 1000);
  const timer = setInterval(() => {
    const { buffered, currentTime } = video;
    const end = buffered.length > 0 ? buffered.end(buffered.length - 1) : 0;
    seen.levels.push([now(), end - currentTime]);
    // On a busy machine, the event `ended` may be missing.
    if (video.duration - currentTime < END) finish();
  }, LEVELS);
  player.updateSettings(settings(options));
  player.initialize(video, manifest, true);
  return ended;
}

window.play = play;
