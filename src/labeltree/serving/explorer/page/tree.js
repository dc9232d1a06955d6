// The tree: a list of the open nodes, of which only those in sight are in the page, used by mouse and keys.
import { element, percent, whole } from "./cards.js";

const FEW = 10;  // of fewer samples stands how many are right, in place of a share

export class TreeView {
  // box: the scrolling element; tree: reply of /api/tree; told.pick(node): a node was chosen
  constructor(box, tree, told) {
    Object.assign(this, { box, tree, told, open: new Set([0]), chosen: 0, active: 0, order: "tree", rows: [] });
    this.depth = new Int32Array(tree.names.length);
    this.children = tree.names.map(() => []);
    for (let node = 1; node < tree.names.length; node++) {
      this.depth[node] = this.depth[tree.parents[node]] + 1;
      this.children[tree.parents[node]].push(node);
    }
    this.unfold();
    this.inner = element("div");
    box.append(this.inner);
    box.addEventListener("scroll", () => this.draw());
    box.addEventListener("click", (event) => this.click(event));
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(box);
    this.list();
  }

  get height() { return matchMedia("(max-width: 860px)").matches ? 40 : 30; }

  unfold() {  // as many depths as fit on a screen
    let shown = 1, level = [0];
    while (level.length) {
      const below = level.flatMap((node) => this.children[node]);
      if (shown + below.length > 60 && level[0] !== 0) break;
      level.forEach((node) => this.open.add(node));
      shown += below.length;
      level = below;
    }
  }

  sorted(children) {
    const { samples, judged, right, suspects } = this.tree;
    const share = (node) => (judged[node] ? right[node] / judged[node] : 2);
    const by = { samples: (a, b) => samples[b] - samples[a], accuracy: (a, b) => share(a) - share(b),
      wrong: (a, b) => (judged[b] - right[b]) - (judged[a] - right[a]), suspects: (a, b) => suspects[b] - suspects[a] }[this.order];
    return by ? [...children].sort((a, b) => by(a, b) || a - b) : children;
  }

  list() {
    this.rows = [];
    const visit = (node) => {
      this.rows.push(node);
      if (this.open.has(node)) this.sorted(this.children[node]).forEach(visit);
    };
    visit(0);
    if (!this.rows.includes(this.active)) this.active = 0;
    this.draw();
  }

  draw() {
    const height = this.height, top = this.box.scrollTop;
    this.inner.style.height = `${this.rows.length * height}px`;
    const first = Math.max(Math.floor(top / height) - 5, 0);
    const last = Math.min(Math.ceil((top + this.box.clientHeight) / height) + 5, this.rows.length);
    this.inner.replaceChildren(...this.rows.slice(first, last).map((node, i) => this.row(node, (first + i) * height)));
    this.box.setAttribute("aria-activedescendant", `node-${this.active}`);
  }

  row(node, top) {
    const { names, samples, judged, right, suspects, colours } = this.tree, inner = this.children[node].length > 0;
    const row = element("div", { className: `node${node === this.active ? " active" : ""}`, id: `node-${node}`, role: "treeitem" });
    row.style.top = `${top}px`;
    row.dataset.node = node;
    row.setAttribute("aria-level", this.depth[node] + 1);
    row.setAttribute("aria-selected", String(node === this.chosen));
    if (inner) row.setAttribute("aria-expanded", String(this.open.has(node)));
    const name = element("span", { className: "name" });
    name.style.paddingLeft = `${Math.min(this.depth[node], 12) * 10}px`;
    const dot = element("span", { className: "dot" });
    dot.style.background = node ? colours[node] : "transparent";
    const label = element("b", { textContent: node ? names[node] : "All samples", title: node ? names[node] : "All samples" });
    name.append(element("span", { className: "fold", textContent: inner ? (this.open.has(node) ? "▾" : "▸") : "" }), dot, label);
    const counts = `${right[node]}/${judged[node]}`, few = judged[node] < FEW;
    const share = element("span", { textContent: judged[node] ? (few ? counts : percent(right[node] / judged[node])) : "",
      className: few ? "few" : "", title: judged[node] ? counts.replace("/", " of ") : "" });
    row.append(name, element("span", { textContent: whole(node ? samples[node] : this.told.total) }), share,
      element("span", { className: "flag", textContent: suspects[node] ? whole(suspects[node]) : "" }));
    return row;
  }

  click(event) {
    const row = event.target.closest(".node");
    if (!row) return;
    const node = Number(row.dataset.node);
    this.active = node;
    if (event.target.closest(".fold") && this.children[node].length) this.toggle(node);
    else this.told.pick(node);
  }

  toggle(node, open = !this.open.has(node)) {
    if (open) this.open.add(node);
    else this.open.delete(node);
    this.list();
  }

  fold() { this.open = new Set([0]); this.list(); this.box.scrollTop = 0; }

  sort(order) { this.order = order; this.list(); }

  choose(node) {  // shows the node as chosen, with all above it open
    this.chosen = this.active = node;
    for (let above = this.tree.parents[node]; above >= 0; above = this.tree.parents[above]) this.open.add(above);
    this.list();
    this.reveal();
  }

  reveal() {
    const top = this.rows.indexOf(this.active) * this.height, box = this.box;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + this.height > box.scrollTop + box.clientHeight) box.scrollTop = top + this.height - box.clientHeight;
    this.draw();
  }

  key(event) {
    const at = this.rows.indexOf(this.active), node = this.active, last = this.rows.length - 1;
    const page = Math.max(Math.floor(this.box.clientHeight / this.height) - 1, 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + page, PageUp: at - page }[event.key];
    if (to !== undefined) this.active = this.rows[Math.min(Math.max(to, 0), last)];
    else if (event.key === "ArrowRight" && this.children[node].length) {
      if (this.open.has(node)) this.active = this.sorted(this.children[node])[0];
      else this.toggle(node, true);
    } else if (event.key === "ArrowLeft") {
      if (this.open.has(node) && this.children[node].length) this.toggle(node, false);
      else if (node) this.active = this.tree.parents[node];
    } else if (event.key === "Enter" || event.key === " ") this.told.pick(node);
    else return;
    event.preventDefault();
    this.reveal();
  }
}
