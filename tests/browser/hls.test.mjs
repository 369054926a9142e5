// A browser plays HLS from `freshet demo`: live and on demand, over HTTPS with HTTP/2 and HTTP/3.
//
// The page comes from the same origin as the media, so that the browser tells the script which
// protocol each response came over. Playwright answers for the page and for hls.js; all else goes to
// the node.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { missing, modules, patienceMs, protocols, stage } from './stage.mjs';

// How much has to be seen of each programme.
const playedSeconds = 3;

const on = stage();

const page = `<!DOCTYPE html><meta charset="utf-8"><title>player</title>
<style>body{margin:0;background:#222}video{width:960px;height:540px}</style>
<video muted autoplay playsinline></video><script src="/player/hls.js"></script>`;

/** Plays a programme over a protocol; returns what the page and the network saw. */
async function play(name, protocol) {
  const browser = await on.over(protocol);
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width: 960, height: 540 },
  });
  const tab = await context.newPage();
  const faults = [];
  tab.on('pageerror', (error) => faults.push(String(error)));
  const responses = [];
  tab.on('response', (response) => responses.push(response));
  await tab.route(`${on.base}/player/index.html`, (route) =>
    route.fulfill({ contentType: 'text/html', body: page }),
  );
  await tab.route(`${on.base}/player/hls.js`, (route) =>
    route.fulfill({ path: path.join(modules, 'hls.js/dist/hls.min.js') }),
  );
  await tab.goto(`${on.base}/player/index.html`);
  await tab.evaluate((source) => {
    const video = document.querySelector('video');
    const state = { errors: [], fatal: [], start: null };
    window.state = state;
    const hls = new Hls();
    window.hls = hls;
    hls.on(Hls.Events.ERROR, (_, { fatal, details, type, error }) => {
      (fatal ? state.fatal : state.errors).push(`${type} ${details} ${error ?? ''}`);
    });
    // From the first picture on, since a live channel starts far from zero.
    video.addEventListener('playing', () => (state.start ??= video.currentTime));
    hls.loadSource(source);
    hls.attachMedia(video);
  }, `/${name}/master.m3u8`);
  const watched = () =>
    tab.evaluate(() => {
      const { errors, fatal, start } = window.state;
      const video = document.querySelector('video');
      const { videoWidth: width, videoHeight: height, currentTime } = video;
      const { totalVideoFrames: frames } = video.getVideoPlaybackQuality();
      const played = start === null ? 0 : currentTime - start;
      // The number of the programme is painted large, at the left: its middle, and beside it.
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [40, 23];
      const context = canvas.getContext('2d');
      context.drawImage(video, 0, 0, canvas.width, canvas.height);
      const green = (x, y) => context.getImageData(x, y, 1, 1).data[1];
      const contrast = Math.abs(green(5, 6) - green(14, 6));
      return { errors, fatal, played, width, height, frames, contrast };
    });
  try {
    await tab.waitForFunction(
      (seconds) => {
        const { fatal, start } = window.state;
        const now = document.querySelector('video').currentTime;
        return fatal.length > 0 || (start !== null && now - start >= seconds);
      },
      playedSeconds,
      { timeout: patienceMs },
    );
  } catch (error) {
    throw new Error(`${name} does not play: ${JSON.stringify(await watched())}`, { cause: error });
  }
  const result = await watched();
  const media = `${on.base}/${name}/`;
  const resources = await tab.evaluate(
    (prefix) =>
      performance
        .getEntriesByType('resource')
        .filter(({ name }) => name.startsWith(prefix))
        .map(({ name, nextHopProtocol }) => ({ name, nextHopProtocol })),
    media,
  );
  const cacheStatus = await Promise.all(
    responses
      .filter((response) => response.url().startsWith(media))
      .map((response) => response.headerValue('cache-status')),
  );
  const pictures = process.env.FRESHET_BROWSER_PICTURES;
  if (pictures) await tab.screenshot({ path: path.join(pictures, `${name}-${protocol}.png`) });
  await context.close();
  return { ...result, faults, resources, cacheStatus };
}

const programmes = [
  ['channel-1', 'a live channel'],
  ['vod-1', 'a title on demand'],
];
for (const [name, kind, protocol] of protocols.flatMap((protocol) =>
  programmes.map((programme) => [...programme, protocol]),
)) {
  test(`hls.js plays ${kind} over ${protocol} from the cache`, { skip: missing }, async () => {
    const first = await play(name, protocol);
    assert.deepEqual(first.fatal, []);
    assert.deepEqual(first.faults, []);
    assert.ok(first.played >= playedSeconds, `${first.played} s were played`);
    assert.ok(first.width >= 640 && first.frames > 0, JSON.stringify(first));
    assert.ok(first.contrast > 100, `the number stands out by ${first.contrast} of 255`);
    assert.ok(first.resources.length > 0);
    const other = first.resources.filter(({ nextHopProtocol }) => nextHopProtocol !== protocol);
    assert.deepEqual(other, []);
    assert.ok(first.cacheStatus.every((value) => value?.startsWith('freshet')));
    // Whoever comes second finds in the cache what the first one brought there.
    const second = await play(name, protocol);
    assert.deepEqual(second.fatal, []);
    assert.ok(
      second.cacheStatus.some((value) => /^freshet; *hit/.test(value)),
      second.cacheStatus.join('\n'),
    );
  });
}
