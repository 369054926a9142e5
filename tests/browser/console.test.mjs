// The page of `freshet mec` for operators: who signs in sees what there is, as far as that client may ask.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { missing, patienceMs, stageOf } from './stage.mjs';

// Of `secret`.
const secret = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
const client = (name, ...scopes) =>
  `[client.${name}]\nsecret_sha256 = "${secret}"\nscopes = ${JSON.stringify(scopes)}\n`;
const operator = ['mec_app_support', 'mec_service_mgmt', 'mec_platform', 'app_lcm', 'location'];
// Whatever a client may have sent stays what it is: words.
const app = 'camera<img src=x onerror=alert(1)>';

const on = stageOf(/^the platform listens on .*?([\d.]+:\d+)$/, async (home) => {
  const file = path.join(home, 'mec.toml');
  const lines = [
    `listen = "127.0.0.1:0"\nstate = "${home}/state"\n[simulator]\nclients = 3`,
    client('operator', ...operator),
    client('reader', 'mec_platform:applications:read'),
    `[service.detector]\navailability = 99.9`,
    `[[app.${JSON.stringify(app)}.dns_rules]]`,
    'dnsRuleId = "www"\ndomainName = "www.example.com"\nipAddressType = "IP_V4"',
    'ipAddress = "10.99.0.2"\nttl = 30\nstate = "ACTIVE"',
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  return ['mec', '--config', file];
});

/** The page, where somebody tries to sign in. */
async function open(name, word = 'secret') {
  const context = await on.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const tab = await context.newPage();
  const faults = [];
  tab.on('pageerror', (error) => faults.push(String(error)));
  tab.on('dialog', (dialog) => faults.push(dialog.message()));
  await tab.goto(`http://${on.base}/console`);
  await tab.getByLabel('Client').fill(name);
  await tab.getByLabel('Secret').fill(word);
  await tab.getByRole('button', { name: 'Sign in' }).click();
  return { context, tab, faults };
}

const rows = (tab, id) => tab.locator(`#${id} tr:has(td)`).allTextContents();

test('an operator sees all there is', { skip: missing }, async () => {
  const { context, tab, faults } = await open('operator');
  for (const id of ['apps', 'services', 'rules', 'sessions', 'calls', 'promises']) {
    await tab.waitForSelector(`#${id} td`, { timeout: patienceMs });
  }
  assert.ok((await rows(tab, 'apps'))[0].startsWith(app));
  const [rule] = await rows(tab, 'rules');
  assert.equal(rule, `${app}wwwACTIVEwww.example.com is 10.99.0.2`);
  assert.ok((await rows(tab, 'services')).some((row) => row.startsWith('mec_app_support')));
  assert.equal((await rows(tab, 'sessions')).length, 3);
  assert.equal((await rows(tab, 'promises')).join(), 'detectorno error99.9 %');
  assert.equal(await tab.textContent('#operations caption'), 'None');
  assert.match(await tab.textContent('#standing'), /^operator, /);
  // It looks again: its own calls are among those that it shows.
  const line = tab.locator('#calls tr', { hasText: 'location' });
  const before = Number(await line.locator('td').nth(1).textContent());
  await tab.waitForFunction(
    (known) => {
      const lines = [...document.querySelectorAll('#calls tr')];
      const row = lines.find((one) => one.textContent.startsWith('location'));
      return Number(row?.children[1].textContent) > known;
    },
    before,
    { timeout: patienceMs },
  );
  assert.deepEqual(faults, []);
  await context.close();
});

test('who may ask for less sees less, and is told so', { skip: missing }, async () => {
  const { context, tab, faults } = await open('reader');
  await tab.waitForSelector('#apps td', { timeout: patienceMs });
  for (const id of ['operations', 'services', 'rules', 'sessions', 'calls', 'promises']) {
    await tab.waitForSelector(`#${id} caption.wrong`, { timeout: patienceMs });
    assert.equal(await tab.textContent(`#${id} caption`), 'this client may not ask for it', id);
  }
  assert.deepEqual(faults, []);
  await context.close();
});

test('who does not know the secret sees nothing', { skip: missing }, async () => {
  const { context, tab } = await open('operator', 'guess');
  await tab.waitForSelector('#standing.wrong', { timeout: patienceMs });
  assert.ok(await tab.locator('#page').isHidden());
  await context.close();
});

/** The page, signed in on, where a collection of services is what `answer` makes of a request for it. */
async function withServices(answer) {
  const { context, tab, faults } = await open('operator', '');
  await context.route('**/mec_service_mgmt/v1/services*', answer);
  await tab.getByLabel('Secret').fill('secret');
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await tab.waitForSelector('#services tr, #services caption', { timeout: patienceMs });
  return { context, tab, faults };
}

test('a name cannot look as another', { skip: missing }, async () => {
  const json = [{ serName: '\u202eevil\u0000', version: '1', state: 'ACTIVE' }];
  const { context, tab } = await withServices((route) => route.fulfill({ json }));
  assert.deepEqual(await rows(tab, 'services'), ['\\u202eevil\\u00001ACTIVE']);
  await context.close();
});

test('a collection that is longer than what is shown is not taken for all', { skip: missing }, async () => {
  const { context, tab } = await withServices((route) =>
    route.fulfill({
      json: [{ serName: 'one', version: '1', state: 'ACTIVE' }],
      headers: { Link: `<http://${on.base}/mec_service_mgmt/v1/services?nextpage_opaque_marker=x>; rel="next"` },
    }),
  );
  assert.equal(await tab.textContent('#services caption'), 'The first 8; there are more');
  await context.close();
});

test('what has not changed stays as it is, selections too', { skip: missing }, async () => {
  const { context, tab } = await open('operator');
  await tab.waitForSelector('#rules td', { timeout: patienceMs });
  const selected = () => tab.evaluate(() => String(getSelection()));
  await tab.evaluate(() => getSelection().selectAllChildren(document.querySelector('#rules td')));
  assert.equal(await selected(), app);
  const stood = await tab.textContent('#standing');
  await tab.waitForFunction((stood) => document.querySelector('#standing').textContent !== stood, stood);
  await tab.waitForTimeout(500);
  assert.equal(await selected(), app);
  await context.close();
});

test('a platform that is away is said to be, in all that it would tell', { skip: missing }, async () => {
  const { context, tab } = await open('operator');
  await tab.waitForSelector('#apps td', { timeout: patienceMs });
  await context.setOffline(true);
  for (const id of ['apps', 'operations', 'services', 'rules', 'sessions', 'calls', 'promises']) {
    await tab.waitForSelector(`#${id} caption.wrong`, { timeout: patienceMs });
    assert.equal(await tab.textContent(`#${id} caption`), 'the platform does not answer', id);
  }
  await context.close();
});

test('who has tried too often is told so', { skip: missing }, async () => {
  const { context, tab } = await open('reader', 'guess');
  const words = tab.locator('#standing', { hasText: 'too many wrong secrets' });
  for (let tried = 0; tried < 12; tried += 1) {
    const answered = tab.waitForResponse('**/oauth2/token');
    await tab.getByRole('button', { name: 'Sign in' }).click();
    await answered;
  }
  await words.waitFor({ timeout: patienceMs });
  await context.close();
});

test('the page is there with a slash behind it, too', { skip: missing }, async () => {
  assert.equal((await fetch(`http://${on.base}/console/`)).status, 200);
});
