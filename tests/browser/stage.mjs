// A program and a browser, for the tests of a file.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const freshet = process.env.FRESHET ?? path.join(root, 'target/debug/freshet');
export const modules =
  process.env.FRESHET_BROWSER_MODULES ?? path.join(root, '.cache/browser/node_modules');
const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
);

// How long anything may take; an order of magnitude over what it does on an idle machine.
export const patienceMs = 60_000;

/** Why nothing can be tried here, if so. */
export const missing = [
  [existsSync(freshet), `${freshet} is not built`],
  [existsSync(path.join(modules, 'hls.js')), 'hls.js is not installed; tools/setup test does it'],
  [existsSync(path.join(modules, 'axe-core')), 'axe-core is not installed'],
  [existsSync(path.join(modules, 'playwright-core')), 'playwright-core is not installed'],
  [chromium !== undefined, 'chromium is not installed'],
].find(([isThere]) => !isThere)?.[1];
// Where everything was installed, what is missing is a failure and not a reason to do nothing.
if (missing && process.env.FRESHET_IS_SET_UP) throw new Error(missing);

/** What a browser is started with that speaks one protocol with a server. */
const argumentsFor = {
  h2: async () => ['--disable-quic'],
  // It asks over HTTP/3 at once, as it would once the server has said that there is, of a certificate that it knows.
  h3: async (base) => {
    const { hostname: host, port } = new URL(base);
    const key = await new Promise((resolve, reject) => {
      const socket = connect({ host, port, rejectUnauthorized: false }, () => {
        resolve(socket.getPeerX509Certificate().publicKey.export({ type: 'spki', format: 'der' }));
        socket.end();
      });
      socket.once('error', reject);
    });
    const hash = createHash('sha256').update(key).digest('base64');
    const forced = `--origin-to-force-quic-on=${host}:${port}`;
    return ['--enable-quic', forced, `--ignore-certificate-errors-spki-list=${hash}`];
  },
};

/** The protocols that media are played over, by the name that pages see. */
export const protocols = Object.keys(argumentsFor);

/**
 * Sets the stage before the tests of a file: `base` is the demonstration's URL, `browser` a browser, and `over` gives one for each of
 * the protocols.
 * Further flags of `freshet demo` may follow.
 */
export function stage(...more) {
  // Two viewers, who leave most of a small machine to the browser.
  const flags = '--listen 127.0.0.1:0 --listen-tls 127.0.0.1:0 --admin off --viewers 2';
  const quality = ['--quality', 'lowest', '--segment', '2'];
  const demo = ['demo', ...flags.split(' '), ...quality, ...more];
  return stageOf(/^ +page +(https:\S+?)\/$/, () => demo);
}

/**
 * As `stage`, of a program that is given what `flags` makes of a folder for its files: `base` is what the pattern
 * finds in a line that it writes.
 */
export function stageOf(pattern, flags) {
  const [on, browsers] = [{}, {}];
  let home, program;
  before(async () => {
    if (missing) return;
    home = await mkdtemp(path.join(tmpdir(), 'freshet-browser-'));
    program = spawn(freshet, await flags(home), {
      env: { ...process.env, TMPDIR: home, XDG_RUNTIME_DIR: home },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    on.base = await new Promise((resolve, reject) => {
      program.once('error', reject);
      program.once('exit', (code) => reject(new Error(`freshet ended with ${code}`)));
      createInterface(program.stdout).on('line', (line) => {
        const url = pattern.exec(line)?.[1];
        if (url) resolve(url);
      });
    });
    const { chromium: launcher } = createRequire(path.join(modules, 'x.js'))('playwright-core');
    const usual = ['--no-sandbox', '--autoplay-policy=no-user-gesture-required'];
    const launch = async (protocol) =>
      launcher.launch({
        executablePath: chromium,
        args: [...usual, ...(await argumentsFor[protocol](on.base))],
      });
    on.over = (protocol) => (browsers[protocol] ??= launch(protocol));
    on.browser = await on.over('h2');
  });
  after(async () => {
    for (const browser of Object.values(browsers)) await (await browser).close();
    if (program && program.exitCode === null) {
      const ended = new Promise((resolve) => program.once('exit', resolve));
      program.kill('SIGINT');
      await ended;
    }
    if (home) await rm(home, { recursive: true });
  });
  return on;
}
