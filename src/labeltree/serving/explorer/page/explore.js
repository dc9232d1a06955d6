// The page: asks the server, keeps what is chosen, and has tree, map, samples, node page and review follow it.
import { card, element, percent, picture, spell, whole } from "./cards.js";
import { PointMap } from "./map.js";
import { TreeView } from "./tree.js";

const by = (id) => document.getElementById(id);
const PAGE = 60, HUES = ["m0", "m1", "m4", "m3", "m5", "m6", "m7", "m2"];
const chosen = { node: 0, split: 255, state: 0, lasso: null, hits: null, image: null, row: -1, dials: {} };  // dials: those turned
let info, tree, rows, map, view, shown = [], count = 0, serial = 0;

async function ask(path, options = {}) {
  const reply = await fetch(path, { credentials: "same-origin", ...options });
  if (reply.status === 401) {
    await logIn();
    return ask(path, options);
  }
  if (reply.ok) return reply;
  let said = null;
  try { said = await reply.json(); } catch { /* not from the explorer */ }
  const problem = new Error(said?.detail || `the server answered ${reply.status}`);
  throw Object.assign(problem, { status: reply.status, said });
}
const json = async (path, options) => (await ask(path, options)).json();
const post = (path, body) => json(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

let login = null;
function logIn() {
  login ??= new Promise((done) => {
    const dialog = by("login"), field = by("token");
    dialog.addEventListener("close", () => { if (login) dialog.showModal(); });  // Escape closes it, and nothing works without it
    dialog.querySelector("form").addEventListener("submit", async (event) => {
      event.preventDefault();
      const body = JSON.stringify({ token: field.value.trim() });
      const reply = await fetch("/api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (!reply.ok) { by("login-problem").textContent = "This is not the token."; field.select(); return; }
      dialog.close();
      login = null;
      done();
    });
    dialog.showModal();
  });
  return login;
}

function tell(text) {
  by("notice").textContent = text;
  by("notice").hidden = !text;
}
const failed = (error) => tell(`${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });
// held: what had the focus before something was replaced or hidden; where it is gone, keys go on at its heir.
function handOn(held, heir) {
  if (held !== document.body && !(held.isConnected && held.getClientRects().length)) heir?.focus();
}
const heading = (text) => element("h2", { textContent: text, tabIndex: -1 });
const guarded = (task) => (...given) => Promise.resolve().then(() => task(...given)).catch(failed);

// What is chosen

const path = (node) => {
  const names = [];
  for (let at = node; at > 0; at = tree.parents[at]) names.unshift(tree.names[at]);
  return names;
};
const below = (node, label) => label >= node && label < tree.ends[node];
const passes = (row) => (chosen.node === 0 || below(chosen.node, rows.node[row]))
  && (chosen.split === 255 || rows.split[row] === chosen.split)
  && (chosen.state === 0 || (chosen.state === 1 ? rows.state[row] & 1 : (rows.state[row] & 6) === 2));

function follow() {  // everything that follows from what is chosen
  filter();
  dress();
  chips();
  return drawWall();
}

function filter() {
  const picked = chosen.lasso && new Set(chosen.lasso), inside = new Uint8Array(count);
  shown = [];
  for (let row = 0; row < count; row++) {
    if (passes(row)) { inside[row] = 1; if (!picked || picked.has(row)) shown.push(row); }
  }
  rows.inside = inside;
}

function chips() {
  const made = [];
  const chip = (text, remove) => {
    const one = element("button", { className: "chip", type: "button", textContent: `${text} ×`, title: `${text}: take away` });
    one.addEventListener("click", remove);
    made.push(one);
  };
  if (chosen.node) chip(spell(path(chosen.node)), () => choose(0));
  if (chosen.split !== 255) chip(`split ${info.splits[chosen.split]}`, () => { chosen.split = 255; follow(); });
  if (chosen.state) chip(chosen.state === 1 ? "suspects" : "wrongly predicted", () => { chosen.state = 0; follow(); });
  if (chosen.lasso) chip(`${whole(chosen.lasso.length)} drawn around`, () => { chosen.lasso = null; follow(); });
  if (!made.length || !chosen.state) {
    const offer = (text, state) => {
      const one = element("button", { className: "link quiet", type: "button", textContent: text });
      one.addEventListener("click", () => { chosen.state = state; leaveHits(); follow(); });
      made.push(one);
    };
    if (!chosen.state && info.suspects) offer("only suspects", 1);
    if (!chosen.state && info.judged) offer("only wrong ones", 2);
  }
  const held = document.activeElement;
  by("chips").replaceChildren(...made);
  handOn(held, made[0] || by("samples"));
}

function choose(node) {
  chosen.node = node;
  view.choose(node);
  if (chosen.hits?.again) guarded(chosen.hits.again)();
  follow();
  guarded(showNode)(node);
  queue.after = null;
  if (reviewing()) guarded(showReview)();
  keepPlace();
}

function keepPlace() {
  const parts = [...(chosen.node ? [`node=${encodeURIComponent(path(chosen.node).join("/"))}`] : []), ...turned()];
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname);
}

// Dials

const DIALS = ["tree", "instance"];
const turned = () => DIALS.filter((name) => name in chosen.dials).map((name) => `${name}=${chosen.dials[name]}`);

function showDials(params) {  // params: of the address
  by("dials").hidden = !info.dials;
  for (const name of DIALS) {
    const input = by(`${name}-dial`), value = by(`${name}-value`), asked = params.get(name);
    if (!info.dials) { if (asked !== null) tell(`The index has no dial ${name}: its run has no posterior space.`); continue; }
    if (name === "instance") {
      input.max = Math.max(2, info.dials.instance);
      input.disabled = !info.dials.instance;
      if (input.disabled) by("instance-says").textContent = "the embeddings hold classes alone, so it stays at 0";
    }
    input.value = info.dials[name];
    if (asked !== null) {
      const number = asked.trim() === "" ? NaN : Number(asked);
      if (number >= 0 && number <= Number(input.max) && !input.disabled) { input.value = number; chosen.dials[name] = Number(input.value); }
      else tell(`${name} must be a number from 0 to ${input.disabled ? 0 : input.max}, not ${asked}; it stays at ${info.dials[name]}.`);
    }
    const say = () => { value.textContent = Number(input.value).toFixed(2); };
    input.addEventListener("input", say);
    input.addEventListener("change", guarded(async () => {
      const number = Number(input.value);
      if (number === info.dials[name]) delete chosen.dials[name];
      else chosen.dials[name] = number;
      keepPlace();
      if (chosen.hits?.again) await chosen.hits.again();
    }));
    say();
  }
}

// Map

function abgr(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

function style(name) {  // a colour of the page in the present theme, as #rrggbb
  const probe = element("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return `#${found.map((c) => Math.round(c).toString(16).padStart(2, "0")).join("")}`;
}

function dress() {
  if (!map?.points) return;
  const grey = abgr(style("m2")), faint = abgr(style("line")), way = by("colour").value;
  const hues = HUES.map((name) => abgr(style(name))), nodes = tree.colours.map(abgr), far = abgr(style("far"));
  const colour = {
    label: (row) => (rows.node[row] > 0 ? nodes[rows.node[row]] : grey),
    right: (row) => (rows.state[row] & 2 ? (rows.state[row] & 4 ? hues[0] : far) : faint),
    split: (row) => (rows.split[row] === 255 ? grey : hues[rows.split[row] % hues.length]),
    suspect: (row) => (rows.state[row] & 1 ? far : faint),
  }[way];
  const colours = new Uint32Array(count);
  for (let row = 0; row < count; row++) colours[row] = rows.inside[row] ? colour(row) : faint;
  map.marks = chosen.hits ? chosen.hits.rows.slice(0, 24) : [];
  map.dress(colours, rows.inside, faint, abgr(style("paper")), style("ink"));
  legend(way);
}

function legend(way) {
  const entries = {
    label: () => branches().map((node) => [tree.names[node], tree.colours[node]]),
    right: () => [["right", style("m0")], ["wrong", style("far")], ["not judged", style("line")]],
    split: () => info.splits.slice(0, 20).map((name, i) => [name, style(HUES[i % HUES.length])]),
    suspect: () => [["suspect", style("far")], ["other", style("line")]],
  }[way]();
  by("legend").replaceChildren(...entries.map(([name, colour]) => {
    const dot = element("span", { className: "dot" });
    dot.style.background = colour;
    return element("li", {}, dot, element("span", { textContent: name }));
  }));
}

function branches() {  // the nodes whose hues the map has
  let top = 0;
  while (view.children[top].length === 1) [top] = view.children[top];
  const grey = tree.colours[0], all = view.children[top].filter((node) => tree.samples[node]);
  return all.filter((node) => tree.colours[node] !== grey).slice(0, 12);
}

const askMap = (name) => ask(`/api/maps/${encodeURIComponent(name)}`);

async function showMap(name, coming = null) {  // coming: a reply that was asked for already
  const turn = ++serial, reply = await coming || await askMap(name);
  if (reply.status === 202) {
    const { state, problem } = await reply.json();
    if (state === "failed") { tell(`The map ${name} is not there: ${problem}`); by("method").value = by("method").dataset.last; return; }
    by("note").textContent = `${name} is being computed, once; until then the map is PCA.`;
    if (!map.points) await place(await askMap("PCA"), "PCA", turn);
    by("note").textContent = `${name} is being computed, once; until then the map is ${by("method").dataset.last}.`;
    setTimeout(guarded(async () => { if (turn === serial) await showMap(name); }), 1500);
    return;
  }
  await place(reply, name, turn);
  by("note").textContent = decoded(reply.headers.get("X-Note") || "");
}

const decoded = (text) => text.replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)));

async function place(reply, name, turn) {
  const both = new Float32Array(await reply.arrayBuffer());
  if (turn !== serial) return;
  const points = { x: both.subarray(0, count), y: both.subarray(count) };
  by("drawing").hidden = true;
  by("method").dataset.last = name;
  map.rim = name === "disk";
  map.load(points);
  map.labels = [];
  map.centre = [0, 0];
  map.zoom = 1;
  dress();
  requestAnimationFrame(() => setTimeout(() => {  // points first, then names
    if (map.points === points) map.name(labels(points));
  }));
}

function labels(points) {  // where the names of nodes stand: at the median of 400 of their samples; coarser nodes first
  const members = tree.names.map(() => []), seen = new Int32Array(tree.names.length);
  for (let row = 0; row < count; row++) {
    for (let node = rows.node[row]; node > 0; node = tree.parents[node]) {
      if (seen[node]++ % Math.ceil(tree.samples[node] / 400) === 0) members[node].push(row);
    }
  }
  const middle = (some, number) => Float64Array.from(some, number).sort()[some.length >> 1];
  const found = members.map((some, node) => {
    const x = middle(some, (row) => points.x[row]), y = middle(some, (row) => points.y[row]);
    const spread = middle(some, (row) => Math.hypot(points.x[row] - x, points.y[row] - y));
    return { x, y, spread, name: tree.names[node], depth: view.depth[node], node };
  }).filter(({ node }) => seen[node]);
  return found.sort((a, b) => a.depth - b.depth || tree.samples[b.node] - tree.samples[a.node] || a.node - b.node);
}

let hovering = 0;
const known = new Map();
async function sampleOf(row) {
  if (!known.has(row)) {
    if (known.size > 2000) known.clear();
    known.set(row, (await json(`/api/samples?rows=${row}`)).samples[0]);
  }
  return known.get(row);
}

const hover = guarded(async (row, x, y) => {
  const tip = by("tip"), turn = ++hovering;
  if (row < 0) { tip.hidden = true; return; }
  await pause(known.has(row) ? 0 : 60);
  if (turn !== hovering) return;
  const sample = await sampleOf(row);
  if (turn !== hovering) return;
  const parts = [element("b", { textContent: sample.path.at(-1) || "no label" }), element("div", { className: "path", textContent: spell(sample.path) })];
  if (sample.prediction !== null && sample.prediction !== sample.node) parts.push(element("div", { className: "problem", textContent: `predicted ${spell(sample.predicted_path)}` }));
  if (sample.text !== null) parts.push(element("div", { textContent: sample.text.slice(0, 160) }));
  parts.push(element("div", { className: "quiet", textContent: sample.id }));
  if (sample.picture) parts.unshift(picture(row));
  tip.replaceChildren(...parts);
  tip.dataset.row = row;
  tip.hidden = false;
  const plane = by("plane").getBoundingClientRect(), wide = tip.offsetWidth, high = tip.offsetHeight;
  tip.style.left = `${x + 16 + wide > plane.width ? Math.max(x - wide - 16, 2) : x + 16}px`;
  tip.style.top = `${Math.max(Math.min(y - 30, plane.height - high - 4), 2)}px`;
});

// Samples

const told = {
  open: guarded((row) => search({ row })),
  show: (row) => { if (map?.points) map.mark(row); },
};

const drawWall = guarded(async (more = 0) => {
  const hits = chosen.hits, total = hits ? hits.list.length : shown.length, wall = by("wall");
  by("count").textContent = hits ? `${whole(total)} nearest${chosen.node ? " within the node" : ""}; ${hits.frames}`
    : `${whole(total)} ${total === 1 ? "sample" : "samples"}${total === count ? "" : ` of ${whole(count)}`}`;
  const redraw = (cards) => {
    const held = document.activeElement;
    wall.replaceChildren(...cards);
    handOn(held, by("asked").querySelector("h2") || cards.find((one) => one.dataset.row === held.dataset.row) || by("samples"));
  };
  if (hits) {
    redraw(hits.list.map((hit) => card(hit.sample, told, hit, tree.names)));
    by("more").hidden = true;
    return;
  }
  const from = more ? wall.children.length : 0, turn = more ? serialWall : ++serialWall;
  const part = shown.slice(from, from + PAGE);
  const { samples } = part.length ? await json(`/api/samples?rows=${part.join(",")}`) : { samples: [] };
  if (turn !== serialWall || chosen.hits) return;
  samples.forEach((sample) => known.set(sample.row, sample));
  const cards = samples.map((sample) => card(sample, told));
  if (more) wall.append(...cards);
  else redraw(cards);
  const held = document.activeElement;
  by("more").hidden = from + part.length >= total;
  handOn(held, cards[0]);
});
let serialWall = 0;

const FRAMES = {
  label: (name) => `frames say how far from ${name}`,
  node: (name) => `frames say how far from ${name}`,
  nearest: (name) => `frames say how far from ${name}, the label of the nearest`,
  none: () => "without a label there are no frames",
};

async function search(asked, stay = false) {  // stay: in the tab that is open
  const turn = ++searches, within = [...(chosen.node ? [`within=${chosen.node}`] : []), ...turned()].join("&");
  let found;
  if (asked.file) {
    const type = /^image\//.test(asked.file.type) ? asked.file.type : "application/octet-stream";
    if (asked.file.size > info.max_upload) throw new Error(`the file has more than ${whole(info.max_upload)} bytes`);
    found = await json(`/api/search?${within}`, { method: "POST", headers: { "Content-Type": type }, body: asked.file });
    found.query = asked.file.name;
  } else if (asked.text !== undefined) {
    found = await json(`/api/search?${within}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ texts: [asked.text] }) });
    found.query = `“${asked.text}”`;
  } else found = await json(`/api/search/sample?row=${asked.row}&${within}`);
  if (turn !== searches) return;  // another search began meanwhile, or its results were closed
  const frames = FRAMES[found.reference_is](tree.names[found.reference]), held = document.activeElement;
  leaveHits();
  if (asked.file) chosen.image = URL.createObjectURL(asked.file);
  chosen.hits = { list: found.hits, rows: found.hits.map((hit) => hit.sample.row), frames, again: () => search(asked, true) };
  chosen.row = asked.row ?? -1;
  showAsked(found, chosen.image);
  if (!stay) openTab("samples");
  handOn(held, by("asked").querySelector("h2"));
  if (map.points) { map.picked = chosen.row; dress(); }
  drawWall();
  by("samples").scrollTop = 0;
}
let searches = 0;

function leaveHits() {
  searches++;
  if (chosen.image) URL.revokeObjectURL(chosen.image);
  Object.assign(chosen, { hits: null, image: null, row: -1 });
  by("asked").replaceChildren();
}

async function closeHits() {  // the keys go back to the sample that was asked about
  const { row } = chosen, held = document.activeElement;
  leaveHits();
  map.picked = -1;
  const drawn = follow();
  handOn(held, by("samples"));
  await drawn;
  if (document.activeElement === by("samples")) by("wall").querySelector(`[data-row="${row}"]`)?.focus();
}

function showAsked(found, image) {
  const words = element("div"), sample = found.sample, box = element("div", { className: "asked" });
  words.append(heading(sample ? sample.path.at(-1) || "no label" : found.query));
  if (sample) {
    words.append(pathOf(sample.path, sample.node), element("p", { className: "quiet", textContent: `${sample.id}${sample.split ? ` · ${sample.split}` : ""}` }));
    if (sample.prediction !== null) words.append(element("p", { className: sample.prediction === sample.node ? "quiet" : "problem", textContent: `predicted ${spell(sample.predicted_path)}` }));
    if (sample.text !== null) words.append(element("p", { className: "text", textContent: sample.text }));
  } else words.append(element("p", { className: "quiet", textContent: found.reference_is === "nearest" ? `nearest: ${spell(path(found.reference))}` : "" }));
  const steps = element("div", { className: "steps" });
  const step = (text, action) => { const made = element("button", { type: "button", textContent: text }); made.addEventListener("click", action); steps.append(made); };
  if (sample) step("Show on the map", () => { map.look(map.points.x[sample.row], map.points.y[sample.row], Math.max(map.zoom, 6)); pane("map"); by("plane").focus(); });
  step("Close", guarded(closeHits));
  words.append(steps);
  if (sample?.picture) box.append(picture(sample.row, 480));
  else if (image) box.append(element("img", { src: image, alt: "the uploaded image" }));
  else box.classList.add("plain");
  box.append(words);
  by("asked").replaceChildren(box);
}

function pathOf(names, node) {
  const line = element("p", { className: "path" }), nodes = [];
  for (let at = node; at > 0; at = tree.parents[at]) nodes.unshift(at);
  nodes.forEach((one, i) => {
    const link = element("button", { className: "link", type: "button", textContent: tree.names[one] });
    link.addEventListener("click", () => choose(one));
    line.append(...(i ? [" › ", link] : [link]));
  });
  return line;
}

// Node page

async function showNode(node) {
  const box = by("node"), turn = ++nodeSerial;
  if (box.hidden) { box.dataset.stale = "yes"; return; }
  box.dataset.stale = "";
  const facts = await json(`/api/nodes/${node}`);
  if (turn !== nodeSerial) return;
  const parts = [heading(node ? tree.names[node] : "All samples")], held = document.activeElement;
  if (node) parts.push(pathOf(facts.path, node));
  const here = facts.here && facts.children.length ? `, ${whole(facts.here)} of them labelled no finer` : "";
  parts.push(element("p", { textContent: `${whole(facts.samples)} ${facts.samples === 1 ? "sample" : "samples"}${here}` }));
  if (facts.splits.length) {
    const table = element("table"), judged = facts.splits.some((split) => split.judged);
    table.append(line("th", ["split", "samples", ...(judged ? ["predicted", "right"] : [])]));
    facts.splits.forEach((split) => table.append(line("td", [split.split, whole(split.samples), ...(judged ? [whole(split.judged),
      split.judged ? (split.judged < 10 ? `${split.right} of ${split.judged}` : percent(split.right / split.judged)) : "–"] : [])])));
    parts.push(table);
  }
  const wall = (title, about, samples) => {
    if (!samples.length) return;
    parts.push(element("h3", { textContent: title }), element("p", { className: "quiet", textContent: about }),
      element("div", { className: "wall" }, ...samples.map((sample) => card(sample, told))));
  };
  wall("Typical", "nearest to the mean of the node", facts.typical);
  wall("Hardest", `their neighbours lie farthest away on the tree; of ${whole(facts.asked)} looked at`, facts.hardest);
  bars("Confused with", facts.confused_by === "predictions" ? "where wrong predictions lie" : "where neighbours with other labels lie", facts.confused);
  bars("Below it", "", facts.children);
  box.replaceChildren(...parts);
  handOn(held, parts[0]);
  box.scrollTop = 0;
  function bars(title, about, entries) {
    const list = entries.filter((entry) => entry.count);
    if (!list.length) return;
    const most = Math.max(...list.map((entry) => entry.count)), grid = element("div", { className: "bars" });
    list.forEach((entry) => {
      const link = element("button", { className: "link", type: "button", textContent: entry.path.at(-1), title: spell(entry.path) });
      link.addEventListener("click", () => choose(entry.node));
      const bar = element("i");
      bar.style.width = `${100 * entry.count / most}%`;
      if (title === "Below it") bar.style.background = tree.colours[entry.node];
      grid.append(link, bar, element("span", { textContent: whole(entry.count) }));
    });
    parts.push(element("h3", { textContent: title }), element("p", { className: "quiet", textContent: about }), grid);
  }
}
let nodeSerial = 0;

const line = (tag, cells) => element("tr", {}, ...cells.map((text, i) => element(tag, { textContent: text, className: i ? "n" : "" })));

// Review

const reviewing = () => by("review").getClientRects().length > 0;  // in view, also on a telephone
const queue = { item: null, after: null, done: [], busy: false };  // after: the row of the last one skipped

async function showReview(item = null) {  // of an item, or of the next that is open
  const box = by("review"), turn = ++reviewSerial;
  if (!info.suspects) {
    await showSearch(box);
    return;
  }
  const page = await json(`/api/review?node=${chosen.node}&limit=1${queue.after === null ? "" : `&after=${queue.after}`}`);
  if (turn !== reviewSerial) return;
  if (!item && !page.items.length && queue.after !== null) { queue.after = null; await showReview(); return; }
  queue.item = item || page.items[0] || null;
  const parts = [element("p", { className: "quiet", id: "progress", role: "status", textContent:
    `${whole(page.decided)} of ${whole(page.total)} decided${chosen.node ? ` within ${tree.names[chosen.node]}` : ""}${info.corrections ? ` · written to ${info.corrections}` : ""}` }),
    element("progress", { max: page.total || 1, value: page.decided, ariaLabel: "Decided" })];
  if (queue.item) parts.push(...oneOf(queue.item));
  else parts.push(heading("All decided"));
  if (queue.done.length) {
    parts.push(element("h2", { className: "part", textContent: "Decided just now" }), element("ul", { className: "done" }, ...queue.done.slice(0, 12).map((item) => {
      const undo = element("button", { type: "button", textContent: "Undo" });
      undo.addEventListener("click", () => decide(item, "undo"));
      return element("li", {}, element("span", { textContent: `${item.sample.path.at(-1) || "no label"} → ${outcome(item)}` }), undo);
    })));
  }
  const held = document.activeElement;
  box.replaceChildren(...parts);
  handOn(held, parts[2]);
  if (queue.item && map.points) map.mark(queue.item.sample.row);
}
let reviewSerial = 0;

async function showSearch(box, begun = null) {  // of suspects: begun is what its start has answered
  const turn = reviewSerial, search = begun || await json("/api/suspects");
  if (turn !== reviewSerial) return;
  const words = (text, className = "") => element("p", { textContent: text, className });
  const parts = [heading("Labels that look wrong")];
  if (search.state === "computing") {
    const bar = element("progress", search.share === null ? {} : { max: 1, value: search.share });
    bar.setAttribute("aria-label", "Progress of the search");
    parts.push(element("p", { textContent: `${search.message}…`, role: "status" }), bar);
    setTimeout(guarded(async () => {
      const next = await json("/api/suspects");
      if (next.state === "ready") await takeSuspects();
      else if (turn === reviewSerial) await showSearch(box, next);
    }), 700);
  } else {
    if (search.state === "ready") parts.push(words("No label looks wrong."));
    else parts.push(words("A classifier that has not seen a sample, and the labels of its nearest samples, are compared with its label."));
    if (search.state === "failed") parts.push(element("p", { className: "problem", role: "alert", textContent: `It could not be done: ${search.problem}.` }));
    if (search.possible) {
      const start = element("button", { type: "button", className: "main", id: "find-suspects", textContent: search.state === "absent" ? "Look for suspects" : "Look again" });
      start.addEventListener("click", guarded(async () => showSearch(box, await json("/api/suspects", { method: "POST" }))));
      parts.push(start);
    }
    parts.push(words("“labeltree suspects” does the same, with more options; --suspects FILE shows its table here.", "quiet"));
  }
  const held = document.activeElement;
  box.replaceChildren(...parts);
  handOn(held, parts[0]);
}

async function takeSuspects() {  // those that were found while the page was open
  let nodes, state;
  [info, nodes, state] = await Promise.all([json("/api/info"), json("/api/tree"), ask("/api/rows").then((reply) => reply.arrayBuffer())]);
  tree.suspects = nodes.suspects;
  rows.state = new Uint8Array(state, 4 * count, count);
  view.list();
  tellSuspects();
  follow();
  if (reviewing()) await showReview();
}

function tellSuspects() {
  by("tab-review").textContent = info.suspects ? `Review (${whole(info.suspects)})` : "Review";
  for (const option of by("colour").options) {
    option.hidden = option.disabled = !{ label: true, right: info.judged, split: info.splits.length, suspect: info.suspects }[option.value];
  }
}

function tellAbout() {  // what gave the predictions, and how fresh the index is
  const parts = [];
  if (info.judged) parts.push(`Predictions${info.classifier ? ` by ${info.classifier}` : ""}, judged on ${info.judged === "all" ? "all samples" : `the split ${info.judged}`}.`);
  parts.push(`Index version ${info.version}${info.changed_at ? `, last changed ${info.changed_at}` : ""}${info.changed ? "; it has changed since: start the explorer again" : "; up to date"}.`);
  by("about").textContent = parts.join(" ");
}

function oneOf(item) {
  const box = element("div", { className: "one", tabIndex: -1 }), facts = element("dl");
  if (item.sample.picture) box.append(picture(item.sample.row, 480));
  else box.classList.add("plain");
  const fact = (name, text) => facts.append(element("dt", { textContent: name }), element("dd", { textContent: text }));
  if (item.sample.text !== null) fact("text", item.sample.text);
  fact("label", spell(item.sample.path) || "none");
  if (item.suggested >= 0) fact("likelier", spell(item.suggested_path));
  if (item.reason) fact("why", item.reason);
  fact("sample", item.sample.id);
  box.append(facts);
  const buttons = element("div", { className: "decide" });
  const button = (text, key, action, main = false) => {
    const made = element("button", { type: "button", className: main ? "main" : "", title: text }, text, element("kbd", { textContent: key }));
    made.addEventListener("click", action);
    made.disabled = !info.corrections && key !== "S";
    buttons.append(made);
  };
  if (item.suggested >= 0) button(`Accept ${item.suggested_path.at(-1)}`, "A", () => decide(item, "accept"), true);
  button(`Keep ${item.sample.path.at(-1) || "as it is"}`, "K", () => decide(item, "keep"));
  button("Leave it out", "R", () => decide(item, "remove"));
  if (item.sample.node >= 0) button("No label", "N", () => decide(item, "no label"));
  button("Other…", "O", () => { other.hidden = !other.hidden; field.focus(); });
  button("Skip", "S", () => { queue.after = item.sample.row; guarded(showReview)(); });
  const field = element("input", { type: "search", placeholder: "name of the right node", ariaLabel: "Name of the right node" });
  const other = element("form", { className: "other", hidden: true }, field, element("button", { textContent: "Set" }));
  field.setAttribute("list", "nodes-found");
  const found = element("datalist", { id: "nodes-found" });
  const matches = async () => (await json(`/api/find?q=${encodeURIComponent(field.value)}`)).nodes;
  field.addEventListener("input", guarded(async () => {
    if (field.value) found.replaceChildren(...(await matches()).map((match) => element("option", { value: match.path.join("/") })));
  }));
  other.addEventListener("submit", guarded(async (event) => {
    event.preventDefault();
    const all = await matches(), plain = field.value.trim().toLowerCase();
    const exact = all.filter((match) => [match.path.join("/"), match.path.at(-1)].some((name) => name.toLowerCase() === plain));
    if (exact.length !== 1) throw new Error(exact.length ? `several nodes are called ${field.value}; choose one of the list` : `there is no node ${field.value}; choose one of the list`);
    await decide(item, "accept", exact[0].node);
  }));
  other.append(found);
  const parts = [box, buttons, other];
  if (!info.corrections) parts.push(element("p", { className: "problem", textContent: "Decisions are not kept: start the explorer with --corrections FILE." }));
  if (item.neighbours.length) parts.push(element("h2", { className: "part", textContent: "What is near" }), element("div", { className: "wall" }, ...item.neighbours.map((sample) => card(sample, told))));
  return parts;
}

const outcome = (item) => ({ remove: "left out", "no label": "no label" })[item.action] || spell(item.decided_path) || "no label";

const decide = guarded(async (item, action, node = null) => {
  if (queue.busy) return;
  queue.busy = true;
  tell("");
  let now, theirs = false;
  try {
    now = await post("/api/review", { id: item.sample.id, action, node, seen: item.seen });
  } catch (error) {
    if (error.status !== 409) throw error;
    now = error.said.item;
    tell(`Somebody else has decided meanwhile: ${now.action ? outcome(now) : "it is open again"}.`);
    theirs = !queue.done.some((done) => done.sample.id === now.sample.id);
  } finally {
    queue.busy = false;
  }
  queue.done = queue.done.filter((done) => done.sample.id !== item.sample.id);
  if (now.action && !theirs) queue.done.unshift(now);
  await showReview(action === "undo" && !now.action ? now : null);
});

// Search box

const box = { entries: [], active: -1, serial: 0 };

const suggest = guarded(async () => {
  const words = by("query").value.trim(), turn = ++box.serial;
  if (!words) { closeMatches(); return; }
  const { nodes, samples } = await json(`/api/find?q=${encodeURIComponent(words)}`);
  if (turn !== box.serial) return;
  box.entries = [
    ...(info.reads.includes("text") ? [{ text: `Search for “${words}”`, kind: "text", action: () => search({ text: words }) }] : []),
    ...nodes.map((match) => ({ text: spell(match.path), kind: `node · ${whole(match.samples)}`, action: () => choose(match.node) })),
    ...samples.map((match) => ({ text: match.id, kind: "sample", action: () => search({ row: match.row }) })),
  ];
  if (!box.entries.length) box.entries = [{ text: "no node and no sample is called so", kind: "", action: () => {} }];
  box.active = 0;
  drawMatches();
});

function drawMatches() {
  by("matches").replaceChildren(...box.entries.map((entry, i) => {
    const made = element("li", { role: "option", id: `match-${i}` }, element("span", { textContent: entry.text }), element("span", { className: "quiet", textContent: entry.kind }));
    made.setAttribute("aria-selected", String(i === box.active));
    made.addEventListener("pointerdown", (event) => { event.preventDefault(); take(i); });
    return made;
  }));
  by("matches").hidden = false;
  by("query").setAttribute("aria-expanded", "true");
  by("query").setAttribute("aria-activedescendant", `match-${box.active}`);
  by("matches").children[box.active]?.scrollIntoView({ block: "nearest" });
}

function closeMatches() {
  box.serial++;
  box.entries = [];
  by("matches").hidden = true;
  by("query").setAttribute("aria-expanded", "false");
  by("query").removeAttribute("aria-activedescendant");
}

const take = guarded(async (i) => { const entry = box.entries[i]; closeMatches(); tell(""); await entry?.action(); });

// Panes, keys, theme

function openTab(name) {
  for (const tab of ["samples", "node", "review"]) {
    by(tab).hidden = tab !== name;
    by(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    by(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
  if (document.body.dataset.pane !== "map" || matchMedia("(max-width: 860px)").matches) pane(name, false);
  if (name === "node" && by("node").dataset.stale !== "") guarded(showNode)(chosen.node);
  if (name === "review") guarded(showReview)();
}

function pane(name, tab = true) {
  document.body.dataset.pane = name;
  document.querySelectorAll("#panes button").forEach((button) => {
    if (button.dataset.pane === name) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  });
  if (tab && ["samples", "node", "review"].includes(name)) openTab(name);
}

function listen() {
  const query = by("query");
  let waiting = 0;
  query.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(suggest, 120); });
  query.addEventListener("blur", closeMatches);
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!box.entries.length) return;
      box.active = (box.active + (event.key === "ArrowDown" ? 1 : -1) + box.entries.length) % box.entries.length;
      drawMatches();
    } else if (event.key === "Escape") closeMatches();
    else return;
    event.preventDefault();
  });
  by("search").addEventListener("submit", guarded(async (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    if (!box.entries.length) await suggest();
    await take(box.active);
  }));
  const send = guarded(async (file) => {
    if (!info.reads.includes("image")) throw new Error(info.why_not || "the model does not read images");
    tell(`Looking for what is like ${file.name}…`);
    await search({ file });
    tell("");
  });
  by("choose").addEventListener("click", () => by("file").click());
  by("file").addEventListener("change", () => { if (by("file").files[0]) send(by("file").files[0]); by("file").value = ""; });
  let over = 0;
  const dropping = (event) => [...event.dataTransfer?.types || []].includes("Files");
  window.addEventListener("dragenter", (event) => { if (dropping(event)) { over++; by("drop").hidden = false; } });
  window.addEventListener("dragleave", (event) => { if (dropping(event) && --over <= 0) { over = 0; by("drop").hidden = true; } });
  window.addEventListener("dragover", (event) => { if (dropping(event)) event.preventDefault(); });
  window.addEventListener("drop", (event) => {
    if (!dropping(event)) return;
    event.preventDefault();
    over = 0;
    by("drop").hidden = true;
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  });
  window.addEventListener("paste", (event) => { const [file] = event.clipboardData?.files || []; if (file) send(file); });
  document.querySelectorAll("[role=tab]").forEach((tab) => {
    tab.addEventListener("click", () => openTab(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], all = ["samples", "node", "review"];
      if (!step) return;
      const name = all[(all.indexOf(tab.getAttribute("aria-controls")) + step + 3) % 3];
      openTab(name);
      by(`tab-${name}`).focus();
    });
  });
  document.querySelectorAll("#panes button").forEach((button) => button.addEventListener("click", () => pane(button.dataset.pane)));
  by("more").addEventListener("click", () => drawWall(1));
  by("order").addEventListener("change", () => view.sort(by("order").value));
  by("fold").addEventListener("click", () => view.fold());
  by("method").addEventListener("change", guarded(() => showMap(by("method").value)));
  by("colour").addEventListener("change", dress);
  by("fit").addEventListener("click", () => map.fit());
  by("lasso").addEventListener("click", () => {
    map.lassoing = !map.lassoing;
    by("lasso").setAttribute("aria-pressed", String(map.lassoing));
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, dialog, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const item = queue.item, key = event.key.toLowerCase();
    if (event.key === "/") { query.focus(); query.select(); event.preventDefault(); }
    else if (event.key === "Escape") { chosen.lasso = null; guarded(closeHits)(); }
    else if (reviewing() && item && !event.repeat && "akosrn".includes(key)) {
      const label = { a: "Accept", k: "Keep", o: "Other", s: "Skip", r: "Leave it out", n: "No label" }[key];
      [...by("review").querySelectorAll(".decide button")].find((one) => one.title.startsWith(label))?.click();
      event.preventDefault();
    }
  });
  const theme = (name) => { localStorage.setItem("labeltree-theme", name); requestAnimationFrame(dress); };
  const kept = by(`theme-${localStorage.getItem("labeltree-theme")}`);
  if (kept) kept.checked = true;
  for (const name of ["auto", "light", "dark"]) by(`theme-${name}`).addEventListener("change", () => theme(name));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress());
}

const start = guarded(async () => {
  const params = new URLSearchParams(location.search), asked = params.get("map");
  let method = "", coming = null;
  const [nodes, state] = await Promise.all([json("/api/tree"), ask("/api/rows").then((reply) => reply.arrayBuffer()),
    json("/api/info").then((said) => {
      info = said;
      method = info.maps.some((one) => one.name === asked) ? asked : info.map;
      if (info.samples) coming = askMap(method).catch(() => null);  // it is asked again, and then the reason is told
    })]);
  tree = nodes;
  count = info.samples;
  rows = { node: new Int32Array(state, 0, count), state: new Uint8Array(state, 4 * count, count),
    split: new Uint8Array(state, 5 * count, count), inside: new Uint8Array(count).fill(1) };
  document.title = `${info.title} · labeltree`;
  by("title").textContent = by("title").title = info.title;
  by("query").placeholder = info.reads.includes("text") ? "Search by a text, a node or a sample id  ( / )" : "Search a node or a sample id  ( / )";
  by("choose").hidden = !info.reads.includes("image");
  if (info.why_not) by("query").title = info.why_not;
  if (!info.judged) by("tree").classList.add("unjudged");
  else if (info.judged !== "all") by("judged").textContent = `right (${info.judged})`;
  by("judged").title = `share of right predictions, of ${info.judged === "all" ? "all samples" : `the split ${info.judged}`}`;
  if (info.problems.length) tell(`${info.problems[0]}${info.problems.length > 1 ? `; and ${whole(info.problems.length - 1)} more` : ""}. Such rows stay as they are.`);
  if (info.changed) tell("The index has changed since the explorer was started; start it again to see the change.");
  tellSuspects();
  tellAbout();
  window.addEventListener("focus", guarded(async () => { info = await json("/api/info"); tellAbout(); }));
  by("method").replaceChildren(...info.maps.map((one) => element("option", { value: one.name, textContent: one.name === "disk" ? "Poincaré disk" : one.name })));
  by("method").value = method;
  view = new TreeView(by("nodes"), tree, { total: count, pick: (node) => { tell(""); choose(node); if (!by("node").hidden) by("node").scrollTop = 0; } });
  map = new PointMap(by("plane"), {
    hover,
    pick: told.open,
    lasso: (picked) => { chosen.lasso = picked.length ? picked : null; leaveHits(); openTab("samples"); follow(); },
  }, params.get("draw") || "");
  window.explorer = { map };  // for tests and measurements
  listen();
  pane("map");
  const kept = new URLSearchParams(location.hash.slice(1)), wanted = kept.get("node");
  showDials(kept);
  const node = wanted ? tree.names.findIndex((_, i) => i && path(i).join("/") === wanted) : 0;
  chosen.node = Math.max(node, 0);
  filter();
  if (count) await Promise.race([guarded(showMap)(method, coming), pause(1500)]);  // points first, then pictures
  else by("drawing").textContent = "The index has no samples.";
  if (chosen.node) choose(chosen.node);
  else follow();
  by("node").dataset.stale = "yes";
});
start();
