// The description of the admin interface is valid OpenAPI, and a client that a generator made of it
// asks a node.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const freshet = process.env.FRESHET ?? path.join(root, 'target/debug/freshet');
const modules =
  process.env.FRESHET_BROWSER_MODULES ?? path.join(root, '.cache/browser/node_modules');

const missing = [
  [existsSync(freshet), `${freshet} is not built`],
  [existsSync(path.join(modules, 'swagger-typescript-api')), 'the generator is not installed'],
  [existsSync(path.join(modules, '@apidevtools/swagger-parser')), 'the validator is not installed'],
].find(([isThere]) => !isThere)?.[1];
if (missing && process.env.FRESHET_IS_SET_UP) throw new Error(missing);

let home, node, base;

before(async () => {
  if (missing) return;
  home = await mkdtemp(path.join(tmpdir(), 'freshet-openapi-'));
  const flags = '--listen 127.0.0.1:0 --admin 127.0.0.1:0 --origin http://127.0.0.1:9';
  node = spawn(freshet, ['serve', ...flags.split(' '), '--memory', '64MiB', '--access-log', 'off'], {
    env: { ...process.env, RUNTIME_DIRECTORY: home },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  base = await new Promise((resolve, reject) => {
    node.once('error', reject);
    node.once('exit', (code) => reject(new Error(`freshet serve ended with ${code}`)));
    let admin;
    createInterface(node.stderr).on('line', (line) => {
      admin ??= /^admin +(http:\S+)\/metrics$/.exec(line)?.[1];
      if (/^ready /.test(line)) resolve(admin);
    });
  });
});

after(async () => {
  node?.kill();
  if (home) await rm(home, { recursive: true, force: true });
});

test('the description is valid', { skip: missing }, async () => {
  const description = await (await fetch(`${base}/openapi.json`)).json();
  assert.match(description.openapi, /^3\.1\./);
  const { default: parser } = createRequire(path.join(modules, 'x.js'))('@apidevtools/swagger-parser');
  await parser.validate(description);
  for (const [where, operations] of Object.entries(description.paths)) {
    for (const operation of Object.values(operations)) {
      for (const response of Object.values(operation.responses)) assert(response.description, where);
      // Whatever needs the token may refuse with a problem.
      if (operation.security) assert(operation.responses.default.content['application/problem+json']);
    }
  }
});

test('a generated client asks a node', { skip: missing }, async () => {
  const input = path.join(home, 'openapi.json');
  await writeFile(input, await (await fetch(`${base}/openapi.json`)).text());
  const { generateApi } = createRequire(path.join(modules, 'x.js'))('swagger-typescript-api');
  const { files } = await generateApi({ input, output: false, toJS: true, silent: true });
  const client = path.join(home, 'client.mjs');
  await writeFile(client, files.find((file) => file.fileExtension === '.js').fileContent);
  const { Api } = await import(pathToFileURL(client));
  const token = (await readFile(path.join(home, 'admin.token'), 'utf8')).trim();
  const api = new Api({
    baseUrl: base,
    baseApiParams: { format: 'json', headers: { Authorization: `Bearer ${token}` } },
  });
  assert.equal((await api.v1.stats()).data.workers > 0, true);
  assert.equal((await api.v1.origins()).data[0].name, '127.0.0.1:9');
  assert.equal((await api.v1.purge({ url: 'http://a.example/', soft: false })).data.purged, 0);
  // What is refused is a problem of RFC 9457.
  const refused = await api.v1.purge({ url: 'nonsense', soft: false }).catch((error) => error);
  assert.equal(refused.status, 400);
  assert.equal(refused.headers.get('content-type'), 'application/problem+json');
  assert.equal(refused.error.status, 400);
  assert.equal(refused.error.type, 'about:blank');
  assert.match(refused.error.detail, /nonsense/);
  const closed = await fetch(`${base}/v1/stats`);
  assert.equal(closed.status, 401);
  assert.equal((await closed.json()).title, 'Unauthorized');
});
