// What the page does: programmes play in their cards, and figures of the demonstration come by themselves.

import { Player } from './player.js';

const SEGMENTS_SHOWN = 4;
const SECONDS_SHOWN = 60;

let stopPlaying = () => {};

for (const button of document.querySelectorAll('button[data-manifest]')) {
  button.addEventListener('click', () => play(button));
}

function play(button) {
  stopPlaying();
  const card = button.closest('.card');
  const { content } = document.querySelector('#player');
  const stage = content.cloneNode(true).firstElementChild;
  card.append(stage);
  card.classList.add('playing');
  const video = stage.querySelector('video');
  video.setAttribute('aria-label', `${card.querySelector('h3').textContent}, ${button.textContent}`);
  const rows = stage.querySelector('tbody');
  const player = new Player(video, (segment) => {
    rows.prepend(row(segment));
    while (rows.children.length > SEGMENTS_SHOWN) rows.lastElementChild.remove();
  });
  stopPlaying = () => {
    player.stop();
    stage.remove();
    card.classList.remove('playing');
    button.focus();
    stopPlaying = () => {};
  };
  stage.querySelector('button').addEventListener('click', () => stopPlaying());
  stage.addEventListener('keydown', (event) => event.key === 'Escape' && stopPlaying());
  player.play(new URL(button.dataset.manifest, location).href).catch((error) => {
    stage.querySelector('.trouble').textContent = `It does not play: ${error.message}`;
  });
  stage.querySelector('button').focus({ preventScroll: true });
  card.scrollIntoView({ block: 'start' });
}

/** A segment as a row: what it is, and where it came from. */
function row({ kind, rung, number, bytes, ms, cacheStatus }) {
  const isHit = /;\s*hit/.test(cacheStatus);
  const what = kind === 'sound' ? 'sound' : `${rung.height}p`;
  const cells = [`${number}`, what, `${(bytes / 1e6).toFixed(2)} MB`, `${ms.toFixed(0)} ms`];
  const element = document.createElement('tr');
  for (const text of [...cells, isHit ? 'cache' : 'origin']) {
    const cell = document.createElement('td');
    cell.textContent = text;
    element.append(cell);
  }
  element.lastElementChild.className = isHit ? 'hit' : 'miss';
  element.title = cacheStatus;
  return element;
}

const gigabits = (value) => `${value.toFixed(value < 10 ? 2 : 1)} Gbit/s`;
const percent = (value) => (value === null ? '–' : `${(value * 100).toFixed(1)} %`);
const millis = (value) => (value === null ? '–' : `${value.toFixed(value < 10 ? 2 : 0)} ms`);

const shown = [];

function show(figures) {
  const words = {
    sent: gigabits(figures.gbit_per_second),
    fetched: gigabits(figures.origin_gbit_per_second),
    bytes: percent(figures.byte_hit_ratio),
    first: millis(figures.ttfb_p50_ms),
    viewers: `${figures.viewers}`,
    trouble: `${figures.late + figures.errors}`,
  };
  for (const [name, text] of Object.entries(words)) {
    document.querySelector(`[data-figure="${name}"]`).textContent = text;
  }
  shown.push([figures.last_gbit_per_second, figures.last_origin_gbit_per_second]);
  if (shown.length > SECONDS_SHOWN) shown.shift();
  const top = Math.max(...shown.flat(), 0.001);
  [...document.querySelectorAll('#plot polyline')].forEach((line, which) => {
    const points = shown.map((pair, at) => {
      const x = ((SECONDS_SHOWN - shown.length + at) / (SECONDS_SHOWN - 1)) * 600;
      return `${x.toFixed(1)},${(98 - (pair[which] / top) * 94).toFixed(1)}`;
    });
    line.setAttribute('points', points.join(' '));
  });
  document.querySelector('#top').textContent = gigabits(top);
  document.querySelector('#figures').hidden = false;
}

const AGAIN_MS = 2000;

// They come from the origin through the node, as all else here does. Without a demonstration none come.
function listen() {
  const news = new EventSource('/figures');
  news.addEventListener('message', ({ data }) => show(JSON.parse(data)));
  // It asks again by itself after a connection that broke, but not after an answer other than 200.
  news.addEventListener('error', () => {
    if (news.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
  });
}

listen();
