// What HLS playlists and DASH manifests say, in one form, as far as this page plays them: separate
// pictures and sound, numbered segments.
//
// A presentation is { pictures, sound }: lists of rungs, the lowest bit rate first. A rung is
// { bandwidth, width, height, mime, list }, and list() tells what there is now:
// { init, segments: [{ number, url, seconds }], isLive }.

/** Reads the manifest at a URL. */
export async function open(url) {
  const text = await fetchText(url);
  const { pictures, sound } = text.startsWith('#EXTM3U') ? hls(url, text) : dash(url, text);
  const byRate = (one, other) => one.bandwidth - other.bandwidth;
  return { pictures: pictures.sort(byRate), sound: sound.sort(byRate) };
}

async function fetchText(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.text();
}

/** The attributes of a tag, RFC 8216 §4.2. */
function attributes(line) {
  const found = line.matchAll(/([A-Z0-9-]+)=("[^"]*"|[^,]*)/g);
  return Object.fromEntries([...found].map(([, name, value]) => [name, value.replaceAll('"', '')]));
}

function hls(base, text) {
  const lines = text.split('\n');
  const [pictures, sound] = [[], []];
  let codecs = [];
  const rung = (uri, bandwidth) => {
    const url = new URL(uri, base).href;
    return { bandwidth, list: () => playlist(url) };
  };
  lines.forEach((line, at) => {
    const said = attributes(line);
    if (line.startsWith('#EXT-X-STREAM-INF:')) {
      codecs = said.CODECS.split(',');
      const [width, height] = said.RESOLUTION.split('x').map(Number);
      const codec = codecs.find((codec) => codec.startsWith('avc'));
      const mime = `video/mp4; codecs="${codec}"`;
      pictures.push({ ...rung(lines[at + 1], Number(said.BANDWIDTH)), width, height, mime });
    } else if (line.startsWith('#EXT-X-MEDIA:') && said.TYPE === 'AUDIO') {
      sound.push(rung(said.URI, 0));
    }
  });
  const codec = codecs.find((codec) => codec.startsWith('mp4a'));
  for (const track of sound) track.mime = `audio/mp4; codecs="${codec}"`;
  return { pictures, sound };
}

async function playlist(url) {
  const lines = (await fetchText(url)).split('\n');
  const segments = [];
  let [number, seconds, init] = [0, 0, null];
  for (const line of lines) {
    if (line.startsWith('#EXT-X-MEDIA-SEQUENCE:')) number = Number(line.slice(22));
    else if (line.startsWith('#EXT-X-MAP:')) init = new URL(attributes(line).URI, url).href;
    else if (line.startsWith('#EXTINF:')) seconds = Number.parseFloat(line.slice(8));
    else if (line && !line.startsWith('#')) {
      segments.push({ number, url: new URL(line, url).href, seconds });
      number += 1;
    }
  }
  return { init, segments, isLive: !lines.includes('#EXT-X-ENDLIST') };
}

/** Segments of a channel that are listed: enough to begin a few behind the newest. */
const LISTED_SEGMENTS = 5;

function dash(base, text) {
  const mpd = new DOMParser().parseFromString(text, 'text/xml').documentElement;
  const isLive = mpd.getAttribute('type') === 'dynamic';
  const begun = Date.parse(mpd.getAttribute('availabilityStartTime'));
  const rungs = (kind) =>
    [...mpd.querySelectorAll(`AdaptationSet[contentType="${kind}"] > Representation`)].map((of) => {
      const template = of.closest('AdaptationSet').querySelector('SegmentTemplate');
      const at = (name, number) => {
        const path = template.getAttribute(name).replace('$RepresentationID$', of.id);
        return new URL(path.replace('$Number$', number), base).href;
      };
      const segment = (number, seconds) => ({ number, url: at('media', number), seconds });
      const list = async () => {
        const segments = isLive ? newest(template, begun, segment) : listed(template, segment);
        return { init: at('initialization'), segments, isLive };
      };
      const [bandwidth, width, height] = ['bandwidth', 'width', 'height'].map((name) =>
        Number(of.getAttribute(name)),
      );
      return { bandwidth, width, height, mime: `${kind}/mp4; codecs="${of.getAttribute('codecs')}"`, list };
    });
  return { pictures: rungs('video'), sound: rungs('audio') };
}

/** Of segments of one length: those that are over, by the clock. */
function newest(template, begun, segment) {
  const seconds = template.getAttribute('duration') / template.getAttribute('timescale');
  const first = Number(template.getAttribute('startNumber'));
  const over = Math.floor((Date.now() - begun) / 1000 / seconds);
  const from = Math.max(0, over - LISTED_SEGMENTS);
  return Array.from({ length: over - from }, (_, at) => segment(first + from + at, seconds));
}

/** Of a timeline: all. */
function listed(template, segment) {
  const timescale = Number(template.getAttribute('timescale'));
  let number = Number(template.getAttribute('startNumber'));
  return [...template.querySelectorAll('S')].flatMap((run) =>
    Array.from({ length: Number(run.getAttribute('r') ?? 0) + 1 }, () =>
      segment(number++, run.getAttribute('d') / timescale),
    ),
  );
}
