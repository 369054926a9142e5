"use strict";

const EVERY_MS = 2000;
// Pages of a collection that are shown: what is more is counted by the platform's metrics.
const PAGES_MAX = 8;
// A platform that says nothing for so long is as one that is not there.
const ANSWER_MAX_MS = 10_000;

let token = "";

const part = (id) => document.getElementById(id);

function standing(text, isWrong) {
  part("standing").textContent = text;
  part("standing").className = isWrong ? "wrong" : "quiet";
}

// Asks the platform, and says in words why it has no answer.
async function answerTo(target, request) {
  try {
    return await fetch(target, { ...request, signal: AbortSignal.timeout(ANSWER_MAX_MS) });
  } catch {
    throw new Error("the platform does not answer");
  }
}

async function sign() {
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: part("client").value,
    client_secret: part("secret").value,
  });
  // Without its own credentials the browser asks nobody for a password when these here are refused.
  const answer = await answerTo("/oauth2/token", { method: "POST", body: form, credentials: "omit" });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw new Error(said.error_description || said.detail || said.error || `status ${answer.status}`);
  }
  token = said.access_token;
}

// What the platform answers; a token holds for some minutes.
async function ask(target) {
  const once = () => answerTo(target, { headers: { Authorization: `Bearer ${token}` } });
  let answer = await once();
  if (answer.status === 401) {
    await sign();
    answer = await once();
  }
  if (answer.status === 403) {
    throw new Error("this client may not ask for it");
  }
  if (!answer.ok) {
    throw new Error(`status ${answer.status}`);
  }
  return answer;
}

// All of a collection, page after page; `isCut` where there is more of it than is shown.
async function list(target) {
  const all = [];
  for (let page = 0; target && page < PAGES_MAX; page += 1) {
    const answer = await ask(target);
    all.push(...(await answer.json()));
    const next = /<([^>]+)>;\s*rel="next"/.exec(answer.headers.get("Link") || "");
    target = next && new URL(next[1]).pathname + new URL(next[1]).search;
  }
  all.isCut = Boolean(target);
  return all;
}

// Rows of what was listed.
const each = (all, row) => Object.assign(all.map(row), { isCut: all.isCut });

// Characters that are not seen, or have others read in another order, and so may make one name look as another.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const plain = (text) =>
  text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

function row(kind, cells) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const box = document.createElement(kind);
    box.textContent = plain(String(cell ?? ""));
    if (typeof cell === "number") {
      box.className = "number";
    }
    line.append(box);
  }
  return line;
}

// What each table shows, as text.
const shown = new Map();

async function show(id, heads, rows) {
  let lines = [];
  let note = "";
  let isWrong = false;
  try {
    lines = await rows();
    note = lines.isCut ? `The first ${lines.length}; there are more` : lines.length ? "" : "None";
  } catch (error) {
    note = error.message;
    isWrong = true;
  }
  // What has not changed is left alone, with what somebody may have selected in it.
  const text = JSON.stringify([lines, note]);
  if (shown.get(id) === text) {
    return;
  }
  shown.set(id, text);
  const table = part(id);
  const head = row("th", heads);
  lines[0]?.forEach((cell, at) => {
    if (typeof cell === "number") {
      head.children[at].className = "number";
    }
  });
  table.replaceChildren(...(isWrong ? [] : [head, ...lines.map((line) => row("td", line))]));
  if (note) {
    const caption = document.createElement("caption");
    caption.textContent = note;
    caption.className = isWrong ? "wrong" : "";
    table.append(caption);
  }
}

const instant = (stamp) => new Date(stamp.seconds * 1000).toISOString().slice(0, 19) + "Z";

async function apps(known) {
  const lives = await list("/app_lcm/v1/app_instances").catch(() => []);
  const by = new Map(lives.map((life) => [life.id, life]));
  const there = known.map((app) => {
    const life = by.get(app.appInstanceId);
    by.delete(app.appInstanceId);
    return [app.appInstanceId, app.state, life];
  });
  const others = [...by.values()].map((life) => [life.id, life.instantiationState, life]);
  const all = Object.assign([...there, ...others], { isCut: known.isCut || lives.isCut });
  return each(all, ([id, state, life]) => {
    const at = (life?.communicationInterface?.ipAddresses || []).map((one) => `${one.host}:${one.port}`);
    return [id, life ? `${life.appName} ${life.appSoftVersion}` : "", state, at.join(", ")];
  });
}

async function operations() {
  const all = await list("/app_lcm/v1/app_lcm_op_occs");
  const links = (one) => one._links.appInstance.href.split("/").pop();
  all.sort((one, other) => other.stateEnteredTime.seconds - one.stateEnteredTime.seconds);
  const newest = Object.assign(all.slice(0, 20), { isCut: all.isCut || all.length > 20 });
  return each(newest, (one) => [
    instant(one.stateEnteredTime),
    one.lcmOperation,
    one.operationState,
    links(one),
    one.error?.detail,
  ]);
}

async function services() {
  const all = await list("/mec_service_mgmt/v1/services");
  return each(all, (one) => [
    one.serName,
    one.version,
    one.state,
    one.transportInfo?.endpoint?.uris?.join(", ") ||
      one.transportInfo?.endpoint?.addresses?.map((at) => `${at.host}:${at.port}`).join(", "),
  ]);
}

async function rules(known) {
  const rows = Object.assign([], { isCut: known.isCut });
  for (const { appInstanceId: app } of known) {
    const base = `/mec_app_support/v1/applications/${encodeURIComponent(app)}`;
    for (const rule of await list(`${base}/traffic_rules`)) {
      rows.push([app, rule.trafficRuleId, rule.state, `${rule.action}, priority ${rule.priority}`]);
    }
    for (const rule of await list(`${base}/dns_rules`)) {
      rows.push([app, rule.dnsRuleId, rule.state, `${rule.domainName} is ${rule.ipAddress}`]);
    }
  }
  return rows;
}

async function sessions() {
  const answer = await (await ask("/location/v3/queries/users")).json();
  const users = answer.userList?.user || [];
  return users.map((one) => [
    one.address,
    one.zoneId,
    one.accessPointId,
    one.locationInfo ? `${one.locationInfo.latitude[0].toFixed(5)}, ${one.locationInfo.longitude[0].toFixed(5)}` : "",
  ]);
}

// Samples of a metric, as the platform's text has them: labels and value.
function samples(text, name) {
  const found = [];
  for (const line of text.split("\n")) {
    const at = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (at && at[1] === name) {
      const labels = [...(at[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      found.push([Object.fromEntries(labels.map((one) => [one[1], one[2]])), Number(at[3])]);
    }
  }
  return found;
}

function calls(text) {
  const by = new Map();
  for (const [labels, count] of samples(text, "freshet_mec_calls_total")) {
    const one = by.get(labels.interface) || { all: 0, refused: 0, failed: 0 };
    one.all += count;
    one.refused += labels.status.startsWith("4") ? count : 0;
    one.failed += labels.status.startsWith("5") ? count : 0;
    by.set(labels.interface, one);
  }
  const sums = new Map(samples(text, "freshet_mec_call_seconds_sum").map(([at, value]) => [at.interface, value]));
  return [...by].sort().map(([name, one]) => {
    const mean = ((sums.get(name) || 0) / one.all) * 1000;
    return [name, one.all, one.refused, one.failed, Number(mean.toFixed(2))];
  });
}

function promises(text) {
  return samples(text, "freshet_mec_promised_ratio").map(([labels, share]) => [
    labels.service,
    labels.promise,
    `${Number((share * 100).toFixed(4))} %`,
  ]);
}

async function look() {
  const known = list("/mec_platform/v1/applications");
  try {
    await known;
    standing(`${part("client").value}, ${new Date().toLocaleTimeString()}`, false);
  } catch (error) {
    standing(`apps: ${error.message}`, true);
  }
  const text = () => ask("/mec_platform/v1/metrics").then((answer) => answer.text());
  await Promise.all([
    show("apps", ["App instance", "App", "State", "Address"], async () => apps(await known)),
    show("operations", ["Since", "Operation", "State", "App instance", "Why"], operations),
    show("services", ["Service", "Version", "State", "Where"], services),
    show("rules", ["App instance", "Rule", "State", "What"], async () => rules(await known)),
    show("sessions", ["Client", "Zone", "Cell", "Latitude, longitude"], sessions),
    show("calls", ["Interface", "Calls", "Refused", "Failed", "Mean, ms"], async () => calls(await text())),
    show("promises", ["Service", "Promise", "Share of calls over 30 days"], async () => promises(await text())),
  ]);
}

part("door").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await sign();
  } catch (error) {
    standing(error.message, true);
    return;
  }
  part("door").hidden = true;
  part("page").hidden = false;
  for (;;) {
    await look();
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
});
