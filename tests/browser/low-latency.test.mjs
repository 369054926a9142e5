// A browser plays low-latency HLS from `freshet demo`, part by part, over HTTPS with HTTP/2 and HTTP/3.
//
// What hls.js asks for says that it plays low latency: parts, and versions of the playlist that are not
// there yet. How far behind live it is depends on the machine, and is shown only.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { missing, modules, patienceMs, protocols, stage } from './stage.mjs';

const on = stage('--part', '0.4');

const page = `<!DOCTYPE html><meta charset="utf-8"><title>player</title>
<video muted autoplay playsinline></video><script src="/player/hls.js"></script>`;

for (const protocol of protocols) {
  test(`hls.js plays parts of a live channel as they come over ${protocol}`, { skip: missing }, (t) =>
    play(t, protocol),
  );
}

async function play(t, protocol) {
  const tab = await (await on.over(protocol)).newPage({ ignoreHTTPSErrors: true });
  const responses = [];
  tab.on('response', (response) => {
    const { pathname, search } = new URL(response.url());
    responses.push({ pathname, search, status: response.status() });
  });
  await tab.route(`${on.base}/player/index.html`, (route) =>
    route.fulfill({ contentType: 'text/html', body: page }),
  );
  await tab.route(`${on.base}/player/hls.js`, (route) =>
    route.fulfill({ path: path.join(modules, 'hls.js/dist/hls.min.js') }),
  );
  await tab.goto(`${on.base}/player/index.html`);
  await tab.evaluate(() => {
    const state = { fatal: [], parts: 0, start: null };
    window.state = state;
    const video = document.querySelector('video');
    const hls = new Hls({ lowLatencyMode: true, startLevel: 0 });
    window.hls = hls;
    hls.on(Hls.Events.ERROR, (_, { fatal, details, error }) => {
      if (fatal) state.fatal.push(`${details} ${error ?? ''}`);
    });
    hls.on(Hls.Events.FRAG_BUFFERED, (_, { part }) => (state.parts += part ? 1 : 0));
    video.addEventListener('timeupdate', () => (state.start ??= video.currentTime));
    hls.loadSource('/channel-1/master.m3u8');
    hls.attachMedia(video);
  });
  const seen = () =>
    tab.evaluate(() => {
      const { currentTime: now, buffered } = document.querySelector('video');
      const { latency, targetLatency } = window.hls;
      return { ...window.state, now, buffers: buffered.length, latency, targetLatency };
    });
  try {
    await tab.waitForFunction(
      () => {
        const { fatal, parts, start } = window.state;
        const played = start === null ? 0 : document.querySelector('video').currentTime - start;
        return fatal.length > 0 || (parts >= 10 && played >= 2);
      },
      undefined,
      { timeout: patienceMs },
    );
  } catch (error) {
    throw new Error(`it does not play: ${JSON.stringify(await seen())}`, { cause: error });
  }
  const { fatal, latency, targetLatency } = await seen();
  const spoken = await tab.evaluate(() => [
    ...new Set(performance.getEntriesByType('resource').map(({ nextHopProtocol }) => nextHopProtocol)),
  ]);
  await tab.context().close();
  assert.deepEqual(fatal, []);
  assert.ok(spoken.includes(protocol), spoken.join());
  t.diagnostic(`${latency?.toFixed(1)} s behind live, ${targetLatency?.toFixed(1)} s wanted`);
  const of = (wanted) => responses.filter(wanted);
  assert.ok(of(({ pathname }) => /\/\d+\.\d+\.m4s$/.test(pathname)).length > 0, 'parts were asked for');
  const reloads = of(({ search }) => search.includes('_HLS_msn='));
  assert.ok(reloads.some(({ search }) => search.includes('_HLS_part=')), 'of a part');
  // Only a player that was answered lately leaves out what it knows.
  const updates = reloads.filter(({ search }) => search.includes('_HLS_skip=')).length;
  t.diagnostic(`${reloads.length} reloads, ${updates} of them for what is new only`);
}
