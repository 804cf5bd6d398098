// Plays one video with dash.js or hls.js as they come, but that both say who they are (CMCD). `play` is called by served.mjs.

/** With fewer seconds to play, a video is over. */
const END = 0.02;

/** Each starts its player, and calls `fetched` with the rate, bytes and times (ms) of each segment, and `failed` with what is fatal. */
const PLAYERS = {
  "dash.js": (video, manifest, session, { fetched, failed }) => {
    const player = dashjs.MediaPlayer().create();
    const { FRAGMENT_LOADING_COMPLETED, ERROR } = dashjs.MediaPlayer.events;
    player.on(FRAGMENT_LOADING_COMPLETED, ({ request, error }) => {
      if (request.type !== "MediaSegment" || error) return;
      const { startDate, firstByteDate, endDate, bytesTotal, representation } = request;
      fetched(representation.bandwidth, bytesTotal, [startDate, firstByteDate, endDate]);
    });
    player.on(ERROR, (event) => failed(event.error?.message ?? event.error));
    player.updateSettings({
      streaming: { cmcd: { enabled: true, sid: session }, lastBitrateCachingInfo: { enabled: false } },
    });
    player.initialize(video, manifest, true);
  },
  "hls.js": (video, manifest, session, { fetched, failed }) => {
    const player = new Hls({ cmcd: { sessionId: session } });
    player.on(Hls.Events.FRAG_LOADED, (_, { frag }) => {
      if (frag.sn === "initSegment") return;
      const { loading, total } = frag.stats;
      const times = [loading.start, loading.first, loading.end].map((time) => performance.timeOrigin + time);
      fetched(player.levels[frag.level].bitrate, total, times);
    });
    player.on(Hls.Events.ERROR, (_, { fatal, details }) => {
      if (fatal) failed(details);
    });
    player.loadSource(manifest);
    player.attachMedia(video);
    video.play();
  },
};

/** Plays the video of a manifest to its end, or for `limit` seconds. Times are in seconds from the request on. */
window.play = ({ player, manifest, session, limit }) => {
  const video = document.querySelector("video");
  const began = performance.now();
  const now = () => (performance.now() - began) / 1000;
  const epoch = performance.timeOrigin + began;
  const seen = { join: null, segments: [] };
  video.addEventListener("playing", () => {
    seen.join ??= now();
  });
  return new Promise((done) => {
    const finish = () => {
      clearInterval(timer);
      done({ ...seen, end: now(), played: video.currentTime });
    };
    // On a busy machine, the event `ended` may be missing.
    const timer = setInterval(() => {
      if (video.ended || video.duration - video.currentTime < END || now() > limit) finish();
    }, 100);
    const fetched = (rate, bytes, times) => {
      const [start, first, end] = times.map((time) => (time - epoch) / 1000);
      seen.segments.push({ rate, bytes, start, first, end });
    };
    const failed = (why) => {
      seen.error ??= String(why);
      finish();
    };
    PLAYERS[player](video, manifest, session, { fetched, failed });
  });
};
