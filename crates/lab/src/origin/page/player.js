// A small player on Media Source Extensions: it fetches pictures and sound, keeps some seconds ahead, and
// changes the bit rate with what the network gives.

import { open } from './manifests.js';

/** Media that is fetched ahead of the playback, and kept behind it. */
const AHEAD_SECONDS = 18;
const BEHIND_SECONDS = 12;
/** Segments that a live playback begins behind the newest. */
const BEHIND_SEGMENTS = 3;
/** Of the throughput that was measured, how much a bit rate may take. */
const USED = 0.7;
const PAUSE_MS = 400;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const event = (target, name) =>
  new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));

/** Plays one manifest in one <video>, and tells of each segment that came. */
export class Player {
  #video;
  #tell;
  #stop = new AbortController();
  #bitsPerSecond = 0;
  #first;

  /** tell({ kind, rung, number, bytes, ms, cacheStatus }) is called for each segment. */
  constructor(video, tell) {
    this.#video = video;
    this.#tell = tell;
  }

  /** Plays until stop(), or the end. Rejects where it cannot go on. */
  async play(url) {
    try {
      const { pictures, sound } = await open(url);
      const source = new MediaSource();
      this.#video.src = URL.createObjectURL(source);
      await event(source, 'sourceopen');
      URL.revokeObjectURL(this.#video.src);
      const tracks = [
        ['pictures', pictures],
        ['sound', sound],
      ].filter(([, rungs]) => rungs.length > 0);
      // Both are there before either gets anything: no more can be added then.
      const buffers = tracks.map(([, rungs]) => source.addSourceBuffer(rungs[0].mime));
      await this.#begin(tracks[0][1], buffers);
      const fed = tracks.map(([kind, rungs], at) => this.#feed(kind, rungs, buffers[at]));
      this.#video.play().catch(() => {});
      await Promise.all(fed);
      if (source.readyState === 'open') source.endOfStream();
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  stop() {
    this.#stop.abort();
    this.#video.removeAttribute('src');
    this.#video.load();
  }

  /** Chooses the first segment, and has its time be zero: a channel's clock began long ago. */
  async #begin(rungs, buffers) {
    const { init, segments, isLive } = await rungs[0].list();
    const first = segments.at(isLive ? -Math.min(BEHIND_SEGMENTS, segments.length) : 0);
    if (!first) throw new Error('nothing is listed');
    this.#first = first.number;
    const [header, segment] = await Promise.all([this.#bytes(init), this.#bytes(first.url)]);
    for (const buffer of buffers) buffer.timestampOffset = -startSeconds(header, segment);
  }

  async #feed(kind, rungs, buffer) {
    let [next, current, listed] = [this.#first, null, null];
    while (!this.#stop.signal.aborted) {
      if (ahead(buffer, this.#video.currentTime) > AHEAD_SECONDS) {
        await pause(PAUSE_MS);
        continue;
      }
      const rung = this.#choose(rungs);
      if (rung !== current) listed = null;
      listed ??= await rung.list();
      const segment = listed.segments.find(({ number }) => number >= next);
      if (!segment) {
        if (!listed.isLive) return;
        listed = null;
        await pause(PAUSE_MS);
        continue;
      }
      if (rung !== current) await append(buffer, await this.#bytes(listed.init));
      current = rung;
      const begun = performance.now();
      const response = await this.#fetch(segment.url);
      const bytes = await response.arrayBuffer();
      const ms = performance.now() - begun;
      this.#bitsPerSecond = (bytes.byteLength * 8000) / Math.max(ms, 1);
      await append(buffer, bytes);
      next = segment.number + 1;
      const cacheStatus = response.headers.get('cache-status') ?? '';
      this.#tell({ kind, rung, number: segment.number, bytes: bytes.byteLength, ms, cacheStatus });
      const end = this.#video.currentTime - BEHIND_SECONDS;
      if (end > 0) await remove(buffer, end);
    }
  }

  /** The best that the network and the size of the picture are good for. */
  #choose(rungs) {
    const pixels = this.#video.clientWidth * devicePixelRatio;
    const enough = rungs.find(({ width }) => width >= pixels) ?? rungs.at(-1);
    const fits = (rung) =>
      rung.bandwidth <= this.#bitsPerSecond * USED && rung.bandwidth <= enough.bandwidth;
    return rungs.findLast(fits) ?? rungs[0];
  }

  async #fetch(url) {
    const response = await fetch(url, { signal: this.#stop.signal });
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    return response;
  }

  async #bytes(url) {
    return (await this.#fetch(url)).arrayBuffer();
  }
}

async function append(buffer, bytes) {
  buffer.appendBuffer(bytes);
  await event(buffer, 'updateend');
}

async function remove(buffer, end) {
  buffer.remove(0, end);
  await event(buffer, 'updateend');
}

/** Seconds of media from `now` to the end of what is there. */
function ahead({ buffered }, now) {
  return buffered.length === 0 ? 0 : buffered.end(buffered.length - 1) - now;
}

/** When a segment begins: the first `tfdt` over the timescale of the first `mdhd`, ISO/IEC 14496-12. */
function startSeconds(header, segment) {
  const wide = (view, at) => Number(view.getBigUint64(at));
  const media = find(header, 'mdhd');
  const timescale = media.getUint32(media.getUint8(0) === 1 ? 20 : 12);
  const decode = find(segment, 'tfdt');
  return (decode.getUint8(0) === 1 ? wide(decode, 4) : decode.getUint32(4)) / timescale;
}

/** What follows the name of the first box that is called so. */
function find(bytes, name) {
  const all = new Uint8Array(bytes);
  const code = new TextEncoder().encode(name);
  const at = all.findIndex((_, at) => code.every((letter, offset) => all[at + offset] === letter));
  if (at < 0) throw new Error(`no ${name} in it`);
  return new DataView(bytes, at + code.length);
}
