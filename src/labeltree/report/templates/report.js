"use strict";
(() => {
  const make = (tag, css, text) => {
    const element = document.createElement(tag);
    if (css) element.className = css;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  // Like Python, which writes a half with an even last digit: 12.5 is 12, where toFixed has 13.
  const fixed = (value, digits) => {
    const up = value.toFixed(digits), half = (value * 2 ** (digits + 1)) % 2 === 1;
    return half && up.at(-1) % 2 ? (value - 0.5 / 10 ** digits).toFixed(digits) : up;
  };
  const percent = (share, digits = 1) => `${fixed(100 * share, digits)}\u202f%`;
  const count = (value) => value.toLocaleString("en");
  const steps = (value) => `${value} ${value === 1 ? "step" : "steps"}`;
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

  function tree(source) {
    // nodes in preorder: from the depths follow parents, children and the ends of subtrees
    const data = JSON.parse(source.textContent);
    const total = data.names.length;
    const nodes = data.names.map((name, i) => ({
      i, name, plain: plain(name), depth: data.depths[i], samples: data.samples[i], wrong: data.wrong[i],
      here: data.here[i], height: data.heights[i], colour: data.colours[data.branch[i]] || "",
      taken: data.taken[i], children: [], parent: null,
    }));
    const line = [];
    for (const node of nodes) {
      line.length = node.depth;
      node.parent = line[node.depth - 1] || null;
      if (node.parent) node.parent.children.push(node);
      line.push(node);
      node.line = line.slice(0, -1);
      const parted = data.parted[node.i];
      node.stayed = node.samples - parted.reduce((sum, lost) => sum + lost, 0);
      node.fates = new Map([[0, node.stayed]]);
      node.severe = node.here * node.height;
      node.line.forEach((above, d) => {
        const lost = parted[d] || 0;
        if (lost) node.fates.set(above.height, (node.fates.get(above.height) || 0) + lost);
      });
    }
    for (let i = total - 1; i > 0; i--) nodes[i].parent.severe += nodes[i].severe;
    for (const node of nodes) {
      const outside = node.line.reduce((sum, above, d) => sum + (data.parted[node.i][d] || 0) * above.height, 0);
      node.severity = node.wrong ? (node.severe + outside) / node.wrong : 0;
    }
    const all = new Map([[0, 0]]);
    nodes.filter((node) => !node.children.length).forEach((leaf) =>
      leaf.fates.forEach((lost, tall) => all.set(tall, (all.get(tall) || 0) + lost)));
    nodes[0].fates = all;  // the root's row sums up the classes
    return { nodes, data };
  }

  function explorer(box, source) {
    const { nodes, data } = tree(source);
    const grid = box.querySelector("[role=treegrid]"), body = box.querySelector(".window");
    const field = box.querySelector("input[type=search]"), order = box.querySelector("select");
    const found = box.querySelector(".found"), detail = box.querySelector(".telling");
    const open = new Set(), most = Math.max(...nodes.map((node) => node.here), 1);
    let rows = [], active = nodes[0], query = "", matches = [], shown = null, ROW = 34;

    const orders = {
      mistakes: (a, b) => b.wrong - a.wrong || a.i - b.i,
      share: (a, b) => b.wrong / b.samples - a.wrong / a.samples || a.i - b.i,
      severity: (a, b) => b.severity - a.severity || a.i - b.i,
      tree: (a, b) => a.i - b.i,
      name: (a, b) => a.name.localeCompare(b.name),
    };

    function unfold() {
      // the branches with most mistakes, as far as a screen goes
      const queue = [nodes[0]];
      let used = 1;
      while (queue.length) {
        queue.sort(orders.mistakes);
        const node = queue.shift();
        if (!node.children.length) continue;
        const spare = used + node.children.length > 18 || node.wrong < 0.05 * nodes[0].wrong;
        if (node !== nodes[0] && nodes.length > 60 && spare) continue;
        open.add(node);
        used += node.children.length;
        queue.push(...node.children);
      }
    }

    function flatten() {
      rows = [];
      const sorted = (children) => [...children].sort(orders[order.value]);
      const visit = (node, guides) => {
        node.guides = guides;
        rows.push(node);
        const expanded = shown ? true : open.has(node);
        if (!expanded || !node.children.length) return;
        const below = sorted(shown ? node.children.filter((child) => shown.has(child)) : node.children);
        const further = guides.map((guide) => (guide === "tee" ? "line" : guide === "elbow" ? "none" : guide));
        below.forEach((child, k) => {
          child.place = k + 1;
          child.of = below.length;
          visit(child, [...further, k === below.length - 1 ? "elbow" : "tee"]);
        });
      };
      if (!shown || shown.size) visit(nodes[0], []);
      rows.forEach((node, r) => { node.row = r; });
      body.style.height = `${rows.length * ROW}px`;
      grid.style.maxHeight = rows.length <= 30 ? "none" : "";
      if (!rows.includes(active)) active = rows[0] || nodes[0];
    }

    const expanded = (node) => (shown ? node.children.some((child) => shown.has(child)) : open.has(node));

    function draw() {
      const first = Math.max(0, Math.floor(grid.scrollTop / ROW) - 8);
      const last = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / ROW) + 8);
      const part = document.createDocumentFragment();
      for (let r = first; r < last; r++) part.append(row(rows[r], r));
      body.replaceChildren(part);
      grid.setAttribute("aria-rowcount", rows.length + 1);
      if (rows.length) grid.setAttribute("aria-activedescendant", `node-${active.i}`);
      else grid.removeAttribute("aria-activedescendant");
    }

    function name(node) {
      const label = make("span", "label");
      const at = query ? node.plain.indexOf(query) : -1;
      if (at >= 0 && node.plain.length === node.name.length) {
        label.append(node.name.slice(0, at), make("mark", "", node.name.slice(at, at + query.length)),
          node.name.slice(at + query.length));
      } else label.textContent = node.name;
      return label;
    }

    function bar(node) {
      const drawn = make("span", "bar");
      const words = [];
      for (const tall of [...node.fates.keys()].sort((a, b) => a - b)) {
        const share = node.fates.get(tall) / node.samples;
        words.push(tall ? `${percent(share)} wrong by ${steps(tall)}` : `${percent(share)} inside`);
        const piece = make("i", tall ? "" : "right");
        piece.style.width = `${100 * share}%`;
        piece.style.setProperty("--c", data.ramp[tall]);
        drawn.append(piece);
      }
      drawn.setAttribute("role", "img");
      drawn.setAttribute("aria-label", words.join(", "));
      drawn.title = words.join(", ");
      return drawn;
    }

    function row(node, r) {
      const drawn = make("div", `row${node.children.length ? " inner" : ""}${node === active ? " active" : ""}`);
      drawn.id = `node-${node.i}`;
      drawn.style.top = `${r * ROW}px`;
      drawn.setAttribute("role", "row");
      drawn.setAttribute("aria-level", node.depth + 1);
      drawn.setAttribute("aria-rowindex", r + 2);
      drawn.setAttribute("aria-posinset", node.place || 1);
      drawn.setAttribute("aria-setsize", node.of || 1);
      drawn.setAttribute("aria-selected", node === active);
      if (node.children.length) drawn.setAttribute("aria-expanded", expanded(node));
      const who = make("div", "who");
      who.title = node.line.slice(1).concat(node).map((one) => one.name).join(" › ");
      for (const guide of node.guides) who.append(make("span", `guide ${guide}`));
      const disc = make("span", `node${expanded(node) ? " stem" : ""}`), mark = make("i");
      mark.style.width = mark.style.height = `${Math.max(9, Math.min(28, 28 * Math.sqrt(node.here / most)))}px`;
      if (node.colour) mark.style.background = node.colour;
      disc.append(mark);
      who.append(disc, make("span", "twist", node.children.length ? (expanded(node) ? "▾" : "▸") : ""), name(node));
      const cell = (css, content) => {
        const made = make("div", css);
        made.setAttribute("role", "gridcell");
        made.append(content);
        return made;
      };
      who.setAttribute("role", "gridcell");
      const inside = node.i ? node.stayed : node.samples - node.wrong;
      drawn.append(who, cell("n", count(node.samples)),
        cell("n", `${percent(inside / node.samples)}${node.samples < data.few ? "†" : ""}`), cell("", bar(node)),
        cell("n", node.wrong ? fixed(node.severity, 1) : "–"),
        cell("taken", node.taken ? node.taken[0] : ""),
        cell("n here", node.children.length > 1 ? part(node.here, nodes[0].wrong) : ""));
      return drawn;
    }

    const part = (some, all) => (some ? (some < 0.005 * all ? "< 1\u202f%" : percent(some / all, 0)) : "–");

    function tell(node) {
      const path = node.line.slice(1).concat(node).map((one) => one.name).join(" › ");
      const words = [`${count(node.samples)} ${data.samples_word}`];
      const inner = node.children.length > 0;
      if (inner && node.i) words.push(`${percent(node.stayed / node.samples)} stayed within the branch`);
      words.push(`${percent(1 - node.wrong / node.samples)} got exactly the right class`);
      if (node.wrong) words.push(node.wrong === 1 ? `its mistake is ${node.severity} ${node.severity === 1 ? "step" : "steps"} off` : `its ${count(node.wrong)} mistakes are ${fixed(node.severity, 2)} steps off on average`);
      if (inner && node.here) words.push(`${count(node.here)} ${node.here === 1 ? "mistake was" : "mistakes were"} made at this branch`);
      if (node.taken) words.push(`most often taken for ${node.taken[0]} (${count(node.taken[1])}×)`);
      detail.replaceChildren(make("strong", "", node.i ? path : node.name), ` ${words.join("; ")}.`);
    }

    function go(node, announce = true) {
      active = node;
      const top = node.row * ROW, low = top + ROW;
      if (top < grid.scrollTop) grid.scrollTop = top;
      else if (low > grid.scrollTop + grid.clientHeight) grid.scrollTop = low - grid.clientHeight;
      draw();
      if (announce) tell(node);
    }

    function toggle(node, wanted = !open.has(node)) {
      if (shown || !node.children.length) return;
      if (wanted) open.add(node);
      else open.delete(node);
      flatten();
      go(node);
    }

    function filter() {
      query = plain(field.value.trim());
      if (!query) {
        if (shown) active.line.forEach((above) => open.add(above));  // what was found stays in sight
        shown = null;
        matches = [];
        found.textContent = "";
      } else {
        matches = nodes.filter((node) => node.i && node.plain.includes(query));
        shown = new Set();
        for (const node of matches) for (const one of [...node.line, node]) shown.add(one);
        found.textContent = matches.length === 1 ? "1 found" : `${count(matches.length)} found`;
      }
      grid.scrollTop = 0;
      flatten();
      if (matches.length) {
        const sorted = rows.filter((node) => matches.includes(node));
        matches = sorted.length ? sorted : matches;
        go(matches[0]);
      } else if (rows.length) go(active, false);
      else draw();
    }

    grid.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
      const page = Math.max(1, Math.floor(grid.clientHeight / ROW) - 1);
      const to = (r) => go(rows[Math.min(Math.max(r, 0), rows.length - 1)]);
      const acts = {
        ArrowDown: () => to(active.row + 1), ArrowUp: () => to(active.row - 1),
        PageDown: () => to(active.row + page), PageUp: () => to(active.row - page),
        Home: () => to(0), End: () => to(rows.length - 1),
        ArrowRight: () => {
          if (!active.children.length) return;
          if (expanded(active)) to(active.row + 1);
          else toggle(active, true);
        },
        ArrowLeft: () => {
          if (!shown && open.has(active) && active.children.length) toggle(active, false);
          else if (active.parent) go(active.parent);
        },
        Enter: () => toggle(active), " ": () => toggle(active),
        "*": () => {
          if (shown || !active.parent) return;
          active.parent.children.forEach((one) => { if (one.children.length) open.add(one); });
          flatten();
          go(active);
        },
        "/": () => field.focus(),
      };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    });
    grid.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
    body.addEventListener("click", (event) => {
      const drawn = event.target.closest(".row");
      if (!drawn) return;
      const node = nodes[Number(drawn.id.slice(5))];
      if (node.children.length && (event.target.closest(".twist, .node") || node === active)) toggle(node);
      else go(node);
    });
    field.addEventListener("input", filter);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && field.value) {
        field.value = "";
        filter();
        event.preventDefault();
      } else if (event.key === "Enter" && matches.length) {
        const k = matches.indexOf(active);
        go(matches[(k + (event.shiftKey ? matches.length - 1 : 1)) % matches.length]);
        event.preventDefault();
      } else if (event.key === "ArrowDown" && rows.length) {
        grid.focus();
        event.preventDefault();
      }
    });
    order.addEventListener("change", () => { flatten(); go(active, false); });
    box.querySelector(".unfold").addEventListener("click", () => {
      nodes.forEach((node) => { if (node.children.length) open.add(node); });
      flatten();
      go(active, false);
    });
    box.querySelector(".fold").addEventListener("click", () => {
      open.clear();
      open.add(nodes[0]);
      flatten();
      go(nodes[0], false);
    });
    const measure = () => {
      const tall = Number.parseFloat(getComputedStyle(grid).getPropertyValue("--row")) || 34;
      if (tall !== ROW) { ROW = tall; flatten(); }
      draw();
    };
    window.addEventListener("resize", measure);

    order.value = nodes.length > 60 ? "mistakes" : "tree";
    unfold();
    box.hidden = false;
    flatten();
    measure();
    tell(nodes[0]);
  }

  function hover(chart) {
    // the browser's own tooltip is late and cannot point at anything; without this script it remains
    const tip = make("div", "tip");
    tip.hidden = true;
    chart.after(tip);
    chart.querySelectorAll("g[data-name] > title").forEach((title) => title.remove());
    let lit = null;
    const dim = (group) => {
      if (lit) chart.querySelectorAll(".lit").forEach((one) => one.classList.remove("lit"));
      lit = group ? group.dataset.name : null;
      chart.classList.toggle("dimmed", Boolean(group));
      if (group) {
        chart.querySelectorAll("g[data-name]").forEach((one) => {
          if (one.dataset.name === lit) one.classList.add("lit");
        });
      }
    };
    chart.addEventListener("pointermove", (event) => {
      const group = event.target.closest("g[data-name]");
      if ((group ? group.dataset.name : null) !== lit) dim(group);
      tip.hidden = !group;
      if (!group) return;
      const frame = chart.parentElement.getBoundingClientRect();
      tip.textContent = group.dataset.name;
      tip.style.left = `${Math.min(event.clientX - frame.left + 14, frame.width - 200)}px`;
      tip.style.top = `${event.clientY - frame.top + 16}px`;
    });
    chart.addEventListener("pointerleave", () => { dim(null); tip.hidden = true; });
  }

  function reachable() {
    // what scrolls sideways is reached by keyboard, as long as it scrolls
    const watcher = new ResizeObserver((entries) => entries.forEach(({ target }) => {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }));
    document.querySelectorAll(".scroll").forEach((one) => watcher.observe(one));
  }

  function sortable(table) {
    // the first column restores the order of the tree; numbers begin with the smallest, undefined ones are last
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = column && head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        if (column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.key;
        const compare = (a, b) => (!key(a) - !key(b)) || (down ? key(b) - key(a) : key(a) - key(b));
        body.replaceChildren(...(column ? [...rows].sort(compare) : rows));
      });
    });
  }

  function showNumbers() {  // what a link leads to is shown: the table of all numbers
    const numbers = document.querySelector("#numbers:target > details");
    if (!numbers) return;
    numbers.open = true;
    numbers.parentElement.scrollIntoView();
  }

  document.documentElement.classList.add("js");
  const box = document.getElementById("explorer"), source = document.getElementById("tree-data");
  if (box && source) explorer(box, source);
  reachable();
  document.querySelectorAll("svg.plane").forEach(hover);
  document.querySelectorAll("table.sortable").forEach(sortable);
  addEventListener("hashchange", showNumbers);
  showNumbers();
})();
