"use strict";
// Asks for the facts every two seconds and shows them. Everything is put in as text, never as HTML.

const EVERY = 2000;
let token = "";
const at = (id) => document.getElementById(id);

function make(kind, text, name) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

const known = (value) => value !== null && value !== undefined;
const percent = (value) => (known(value) ? `${value.toFixed(1)} %` : "–");

function seconds(value) {
  if (!known(value)) return "–";
  if (value < 100) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`;
}

function bytes(value) {
  if (!known(value)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${place ? value.toFixed(1) : value} ${units[place]}`;
}

function clock(when) {
  return known(when) ? new Date(1000 * when).toLocaleString() : "–";
}

const ago = (when, now) => (known(when) ? `${seconds(Math.max(0, now - when))} ago` : "–");

function cost(epsilon, bounded) {
  if (bounded === false) return "no bound: no noise";
  return known(epsilon) ? epsilon.toFixed(2) : "–";
}

function numbers(rows) {
  at("numbers").replaceChildren(...rows.map(([name, value, look]) => {
    const box = make("div");
    box.append(make("dt", name), make("dd", value, look));
    return box;
  }));
}

function log(id, lines) {
  at(id).querySelector("ol").replaceChildren(...lines.map(([when, text]) => {
    const row = make("li");
    row.append(make("time", new Date(1000 * when).toLocaleTimeString()), text);
    return row;
  }));
}

function table(id, rows) {
  const names = [...at(id).querySelectorAll("thead th")].map((cell) => cell.textContent);
  at(id).querySelector("tbody").replaceChildren(...rows.map((cells) => {
    const row = make("tr");
    cells.forEach((cell, n) => {
      const { text, small, look } = typeof cell === "object" ? cell : { text: cell };
      const made = make(n ? "td" : "th", text, look);
      if (n) made.dataset.name = names[n]; else made.scope = "row";
      if (small) made.append(make("small", small));
      row.append(made);
    });
    return row;
  }));
}

function head(id, names) {
  const row = make("tr");
  row.append(...names.map((name) => {
    const cell = make("th", name);
    cell.scope = "col";
    return cell;
  }));
  at(id).querySelector("thead").replaceChildren(row);
}

function course(points) {
  const shown = points.filter(([, value]) => known(value));
  at("course").hidden = shown.length < 2;
  if (shown.length < 2) return;
  const [first, last] = [shown[0][0], shown[shown.length - 1][0]];
  const x = (round) => (600 * (round - first)) / Math.max(1, last - first);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", shown.map(([r, v]) => `${x(r).toFixed(1)},${(118 - 1.16 * v).toFixed(1)}`).join(" "));
  at("line").replaceChildren(line);
  const text = `rounds ${first} to ${last}, from 0 to 100 %; the last: ${percent(shown[shown.length - 1][1])}`;
  at("range").textContent = text;
  at("line").setAttribute("aria-label", text);
}

function days(left) {
  const text = known(left) ? (left < 0 ? "expired" : `${left} days`) : "–";
  return ["certificate good for", text, known(left) && left <= 60 ? "bad" : ""];
}

const STATES = {
  none: "no run yet", waiting: "a run waits for its parties", running: "a run goes on",
  finished: "the run is finished", stopped: "the run is stopped", failed: "the run has failed",
  silent: "no sign of life of the run's process",
};

function server(facts) {
  const { run, now } = facts;
  const waiting = facts.waited_for.map((p) => `${p.name} (${seconds(p.waited)})`).join(", ");
  const up = facts.server_up ? "" : "; no sign of life of the server's process";
  const silent = run.state === "silent" ? ` since ${clock(run.silent_since)}` : "";
  at("state").textContent = `${STATES[run.state] || run.state}${silent}${up}`;
  at("state").className = ["failed", "silent"].includes(run.state) || up ? "bad" : "";
  const rows = [["round", String(run.round)],
    ["a round takes", seconds(run.round_seconds)],
    ["waited for", waiting || "nobody"],
    ["anytime accuracy", percent(run.anytime)],
    ["A so far", percent(run.A)], ["forgetting so far", percent(run.F)],
    ["sent by parties", bytes(run.bytes_sent)], ["received by parties", bytes(run.bytes_received)],
    ["ε spent", known(run.delta) ? cost(run.epsilon) : "no noise in this run"],
    days(facts.certificate_days)];
  numbers(rows);
  course(run.course);
  at("parties").hidden = false;
  table("parties", facts.parties.filter((p) => !p.left).map((p) => [p.name,
    { text: p.connected ? "connected" : "not connected", look: p.connected ? "good" : "bad",
      small: known(p.since) ? `since ${clock(p.since)}` : "" },
    { text: ago(p.answered, now), small: known(p.waited) ? `waited for, ${seconds(p.waited)}`
      : known(p.took) ? `it took ${seconds(p.took)}` : "" },
    { text: String(p.batches), small: p.task ? `task ${p.task}` : "" },
    { text: String(p.classes), small: p.labels.slice(0, 12).join(", ") + (p.labels.length > 12 ? ", …" : "") },
    percent(p.anytime), percent(p.A), percent(p.F)]));
  cross(facts.cross_site);
  at("rejected").hidden = !facts.rejected.length;
  log("rejected", facts.rejected);
}

function cross(found) {
  at("cross").hidden = !found;
  if (!found) return;
  head("cross", ["model", ...found.parties.map((name) => `on the data of ${name}`)]);
  table("cross", found.rows.map((row) => [known(row.model) ? `of ${row.model}` : "global",
    ...row.accuracy.map((value) => percent(value))]));
}

const OF_PARTY = {
  "never started": "this party was never started", connecting: "connecting to the server",
  connected: "connected", unreachable: "the server cannot be reached; it is tried again",
  ended: "the party's process has ended", silent: "no sign of life of the party's process",
};

function party(facts) {
  const { now } = facts;
  const silent = facts.state === "silent" ? ` since ${clock(facts.silent_since)}` : "";
  const since = facts.state === "connected" ? ` since ${clock(facts.since)}` : "";
  at("state").textContent = `${OF_PARTY[facts.state] || facts.state}${since}${silent}; server ${facts.server}`;
  at("state").className = facts.state === "connected" ? "good" : "bad";
  numbers([["exchange", known(facts.exchange) ? String(facts.exchange) : "–"],
    ["last answer", ago(facts.answered, now)],
    ["at work on a request", known(facts.busy) ? `for ${seconds(facts.busy)}` : "no"],
    ["mini-batches learned", known(facts.learned) ? String(facts.learned) : "–"],
    ["your classes", String(facts.labels.count)],
    ["classes of all", known(facts.all_labels) ? String(facts.all_labels) : "–"],
    ["anytime accuracy", percent(facts.anytime)],
    ["A so far", percent(facts.A)], ["forgetting so far", percent(facts.F)],
    ["sent", bytes(facts.bytes_sent)], ["models received", bytes(facts.bytes_received)],
    ["ε of your data", cost(facts.epsilon, facts.bounded)],
    ["failures told", String(facts.failures || 0), facts.failures ? "bad" : ""],
    days(facts.certificate_days)]);
  helps(facts);
  elsewhere(facts.name, facts.helps && facts.helps.cross_site);
}

function elsewhere(own, found) {
  at("cross").hidden = !found;
  if (!found) return;
  head("cross", ["party", "its model on your data", "your model on its data"]);
  const there = new Map(found.elsewhere.map((row) => [row.party, row.accuracy]));
  const names = new Set([...found.here.map((row) => row.party), ...there.keys()]);
  const here = new Map(found.here.map((row) => [row.party, row.accuracy]));
  table("cross", [...names].filter((name) => name !== own).map((name) => [
    known(name) ? name : "global model", percent(here.get(name)), percent(there.get(name))]));
}

function helps(facts) {
  const found = facts.helps;
  at("helps").hidden = !found || !(found.tasks.length || found.new);
  if (at("helps").hidden) return;
  const recent = found.new;
  at("new").hidden = !recent;
  at("new").textContent = recent ? `On your last ${recent.samples} new samples, each before it was learned: your own `
    + `model ${percent(recent.own)}, one of your data alone ${percent(recent.alone)}.` : "";
  at("helps").querySelector("table").hidden = !found.tasks.length;
  at("verdict").hidden = !found.tasks.length;
  if (!found.tasks.length) return;
  const rows = found.tasks, last = rows[rows.length - 1];
  table("helps", rows.slice().reverse().map((row) => [String(row.task), String(row.samples),
    percent(row.global), percent(row.own), percent(row.alone)]));
  const kept = last[found.kept];
  let words = "Start this party with --local-too to compare with a model of your data alone.";
  if (known(last.alone) && known(kept)) {
    const more = kept - last.alone;
    const doubt = last.chance < 0.05 ? "" : "; so small a difference may be chance";
    words = `Taking part gives you ${Math.abs(more).toFixed(1)} points ${more >= 0 ? "more" : "fewer"}${doubt}.`;
  }
  at("verdict").textContent = words;
}

async function look() {
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch("/facts", { headers, cache: "no-store" });
    at("access").hidden = answer.status !== 401;
    if (answer.status === 401) {
      at("problem").textContent = token ? "this is not the token" : "";
      at("state").textContent = "A token is needed.";
      return;
    }
    const facts = await answer.json();
    if (!answer.ok) throw new Error(facts.error);
    const name = facts.kind === "server" ? facts.name : `${facts.name} in ${facts.federation}`;
    at("name").textContent = name;
    document.title = `${name}: ofcl federation watch`;
    (facts.kind === "server" ? server : party)(facts);
    log("log", facts.lines);
    at("shown").hidden = false;
    at("problem").textContent = "";
  } catch (error) {
    at("problem").textContent = `This page gets no answer (${error.message}); what you see is old.`;
  } finally {
    setTimeout(look, EVERY);
  }
}

at("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
});
look();
