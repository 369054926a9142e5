// A program and a browser, for the tests of a file.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';
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

/**
 * Sets the stage before the tests of a file: `base` is the demonstration's URL, `browser` a browser.
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
  const on = {};
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
    on.browser = await launcher.launch({
      executablePath: chromium,
      args: ['--no-sandbox', '--disable-quic', '--autoplay-policy=no-user-gesture-required'],
    });
  });
  after(async () => {
    await on.browser?.close();
    if (program && program.exitCode === null) {
      const ended = new Promise((resolve) => program.once('exit', resolve));
      program.kill('SIGINT');
      await ended;
    }
    if (home) await rm(home, { recursive: true });
  });
  return on;
}
