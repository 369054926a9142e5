// The page of `freshet demo`: it plays in place, tells figures, and can be used by everybody.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { missing, modules, patienceMs, stage } from './stage.mjs';

const playedSeconds = 2;

const on = stage();

/** The page in a browser of its own, once figures have come. */
async function open(settings) {
  const context = await on.browser.newContext({ ignoreHTTPSErrors: true, ...settings });
  const tab = await context.newPage();
  const faults = [];
  tab.on('pageerror', (error) => faults.push(String(error)));
  await tab.goto(`${on.base}/`);
  await tab.waitForSelector('#figures:not([hidden])', { timeout: patienceMs });
  return { context, tab, faults };
}

/** A picture for whoever wants to look. */
async function picture(tab, name) {
  const pictures = process.env.FRESHET_BROWSER_PICTURES;
  if (pictures) await tab.screenshot({ path: path.join(pictures, `${name}.png`) });
}

test('programmes play in the page, one at a time', { skip: missing }, async () => {
  const { context, tab, faults } = await open({ viewport: { width: 1280, height: 900 } });
  for (const name of ['HLS: Channel 1', 'DASH: Film 2', 'DASH: Channel 2', 'HLS: Film 1']) {
    await tab.getByRole('button', { name: `Play ${name}`, exact: true }).click();
    await tab.waitForFunction(
      (seconds) => {
        if (document.querySelector('.trouble').textContent) return true;
        return document.querySelector('.stage video').currentTime >= seconds;
      },
      playedSeconds,
      { timeout: patienceMs },
    );
    await picture(tab, name.replace(/\W+/g, '-'));
    assert.equal(await tab.textContent('.trouble'), '', name);
    assert.equal(await tab.locator('video').count(), 1, name);
    const rows = await tab.locator('.stage tbody tr').allTextContents();
    assert.ok(rows.length > 0 && rows.every((row) => /(cache|origin)$/.test(row)), rows.join('\n'));
  }
  await tab.keyboard.press('Escape');
  assert.equal(await tab.locator('video').count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
});

for (const [name, settings] of [
  ['wide and light', { viewport: { width: 1280, height: 900 }, colorScheme: 'light' }],
  ['as wide as a phone and dark', { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }],
]) {
  test(`axe finds nothing serious: ${name}`, { skip: missing }, async () => {
    const { context, tab } = await open(settings);
    await tab.getByRole('button', { name: 'Play HLS: Film 1', exact: true }).click();
    await picture(tab, name.replaceAll(' ', '-'));
    await tab.addScriptTag({ path: path.join(modules, 'axe-core/axe.min.js') });
    const { violations } = await tab.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    const words = serious.map(({ id, nodes }) => `${id}: ${nodes[0].html} and ${nodes.length - 1} more`);
    assert.deepEqual(words, []);
    const { scrolled, shown } = await tab.evaluate(() => {
      const { scrollWidth: scrolled, clientWidth: shown } = document.documentElement;
      return { scrolled, shown };
    });
    assert.ok(scrolled <= shown, `${scrolled} px wide where ${shown} are`);
    await context.close();
  });
}
