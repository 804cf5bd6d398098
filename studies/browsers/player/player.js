// Plays one video with dash.js, and notes what its viewer sees. `play` is called by viewer.mjs.

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
  };
  video.addEventListener("playing", () => {
    seen.join ??= now();
  });
  video.addEventListener("waiting", () => {
    seen.waits += seen.join === null ? 0 : 1;
  });
  const { FRAGMENT_LOADING_COMPLETED, ERROR } = dashjs.MediaPlayer.events;
  player.on(FRAGMENT_LOADING_COMPLETED, ({ request }) => {
    if (request.type !== "MediaSegment") return;
    seen.segments.push({
      rate: request.representation.bandwidth,
      bytes: request.bytesTotal,
      start: request.startDate / 1000 - seen.epoch,
      end: request.endDate / 1000 - seen.epoch,
    });
  });
  player.updateSettings(settings(options));
  player.initialize(video, manifest, true);
  return new Promise((done) => {
    const end = () => done({ ...seen, end: now(), played: video.currentTime });
    video.addEventListener("ended", end);
    player.on(ERROR, (event) => {
      seen.error ??= String(event.error?.message ?? event.error);
      end();
    });
    setTimeout(end, limit * 1000);
  });
}

window.play = play;
