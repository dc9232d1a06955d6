// The map: points of a plane on a canvas, by WebGL where there is a graphics card, else into pixels. Both draw
// by levels of detail: while the view moves, as many points of a fixed random order as fit into a frame; once
// it rests, the others are filled in, a part in each frame.

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in float layer;
uniform vec2 centre, scale; uniform float size;
out vec4 shade;
void main() {
  gl_Position = vec4((place - centre) * scale, layer, 1.0);
  gl_PointSize = layer < 0.0 ? size : max(size - 1.0, 1.0);
  shade = colour;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec4 shade; uniform float size; out vec4 paint;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  if (size > 3.5 && dot(off, off) > 0.25) discard;
  paint = vec4(shade.rgb, 1.0);
}`;
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;
const FRAME = 1000 / 40;  // milliseconds; fewer points are drawn where a frame takes longer

class CardPainter {  // draws on a graphics card
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error("no WebGL");
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    gl.enable(gl.DEPTH_TEST);
    this.gl = gl;
    this.least = 2000;
    this.uniform = (name) => gl.getUniformLocation(program, name);
    this.buffers = Object.fromEntries(["place", "colour", "layer"].map((name) => [name, gl.createBuffer()]));
    this.place = (name, data, width, type, normalised) => {
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, width, type, normalised, 0, 0);
    };
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  }

  load(points, order) {
    const both = new Float32Array(2 * points.x.length);
    points.x.forEach((x, i) => { both[2 * i] = x; both[2 * i + 1] = points.y[i]; });
    this.place("place", both, 2, this.gl.FLOAT, false);
    Object.assign(this, { points, order, rows: new Uint32Array(order.length) });
  }

  dress(colours, above) {
    this.place("colour", new Uint8Array(colours.buffer), 4, this.gl.UNSIGNED_BYTE, true);
    this.place("layer", Float32Array.from(above, (yes) => (yes ? -0.5 : 0.5)), 1, this.gl.FLOAT, false);
  }

  begin(view, paper) {
    const gl = this.gl;
    gl.viewport(0, 0, view.width, view.height);
    gl.uniform2f(this.uniform("centre"), view.x, view.y);
    gl.uniform2f(this.uniform("scale"), 2 * view.scale / view.width, 2 * view.scale / view.height);
    gl.uniform1f(this.uniform("size"), view.size);
    gl.clearColor((paper & 255) / 255, (paper >> 8 & 255) / 255, (paper >> 16 & 255) / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.view = view;
  }

  draw(from, most) {  // [place in the order after the last one drawn, points drawn]
    const { gl, view, order, rows, points: { x, y } } = this;
    const wide = view.width / 2 / view.scale + 0.01, high = view.height / 2 / view.scale + 0.01;
    const [left, right, low, top] = [view.x - wide, view.x + wide, view.y - high, view.y + high];
    let at = from, drawn = 0;
    for (; at < order.length && drawn < most; at++) {
      const row = order[at];
      if (x[row] >= left && x[row] <= right && y[row] >= low && y[row] <= top) rows[drawn++] = row;
    }
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, rows.subarray(0, drawn), gl.STREAM_DRAW);
    gl.drawElements(gl.POINTS, drawn, gl.UNSIGNED_INT, 0);
    return [at, drawn];
  }
}

const MARGIN = 24;  // pixels around the canvas, so that no point needs care at its edge; twice the largest radius

class PixelPainter {  // draws into the pixels of the canvas: faster than WebGL without a graphics card
  constructor(canvas) {
    this.context = canvas.getContext("2d", { alpha: false });
    this.least = 20000;
  }

  load(points, order) {  // in the order of drawing, so that memory is read in one go
    this.order = order;
    this.x = Float32Array.from(order, (row) => points.x[row]);
    this.y = Float32Array.from(order, (row) => points.y[row]);
    this.colours = new Uint32Array(order.length);
    this.above = new Uint8Array(order.length);
    this.pixel = new Int32Array(order.length + 1);  // of the points in sight
    this.place = new Int32Array(order.length + 1);  // in the order
  }

  dress(colours, above, outside) {
    const { order } = this;
    for (let at = 0; at < order.length; at++) {
      this.colours[at] = colours[order[at]];
      this.above[at] = above[order[at]];
    }
    this.outside = outside;
  }

  begin(view, paper) {
    const width = view.width + 2 * MARGIN, height = view.height + 2 * MARGIN;
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    Object.assign(this, { view, paper });
    this.pixels.fill(paper);
    this.stamps = [view.size - 1, view.size].map((size) => stamp(Math.max(Math.round(size), 1), width));
  }

  // Of the points at a pixel, the first one has it; but one above goes before one that is pale.
  draw(from, most) {  // [place in the order after the last one drawn, points drawn]
    const { x, y, pixel, place, view, image: { width, height } } = this, { scale } = view;
    const left = width / 2 - view.x * scale, top = height / 2 + view.y * scale, near = MARGIN / 2;
    let at = from, found = 0;
    for (; at < x.length && found < most; at++) {
      const px = left + x[at] * scale | 0, py = top - y[at] * scale | 0;
      pixel[found] = py * width + px;
      place[found] = at;
      if (px >= near && py >= near && px < width - near && py < height - near) found++;
    }
    if (from) this.fillIn(found);
    else this.cover(found);
    this.context.putImageData(this.image, -MARGIN, -MARGIN, MARGIN, MARGIN, view.width, view.height);
    return [at, found];
  }

  cover(found) {  // onto bare paper: backwards, so that no pixel need be looked at
    const { pixel, place, pixels, colours, above, stamps } = this;
    for (const own of [0, 1]) {
      const steps = stamps[own];
      for (let i = found - 1; i >= 0; i--) {
        const at = place[i];
        if (above[at] !== own) continue;
        const middle = pixel[i], colour = colours[at];
        for (let j = 0; j < steps.length; j++) pixels[middle + steps[j]] = colour;
      }
    }
  }

  fillIn(found) {  // between what is there
    const { pixel, place, pixels, colours, above, stamps, paper, outside } = this;
    for (let i = 0; i < found; i++) {
      const at = place[i], own = above[at], steps = stamps[own], colour = colours[at], over = own ? outside : paper;
      for (let j = 0; j < steps.length; j++) {
        const here = pixel[i] + steps[j], now = pixels[here];
        if (now === paper || now === over) pixels[here] = colour;
      }
    }
  }
}

function stamp(size, width) {  // the pixels of a disc, as steps from its middle in an image of that width
  const half = (size - 1) / 2, middle = Math.floor(half), most = size > 3 ? size * size / 4 : Infinity, steps = [];
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      if ((row - half) ** 2 + (column - half) ** 2 <= most) steps.push((row - middle) * width + column - middle);
    }
  }
  return Int32Array.from(steps);
}

function shuffled(count) {  // the same for the same number, so that the map looks alike every time
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let state = 1;
  for (let i = count - 1; i > 0; i--) {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    const other = Math.floor(state / 4294967296 * (i + 1)), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  return order;
}

function painter(canvas, wanted) {
  if (wanted !== "pixels") {
    try {
      const probe = document.createElement("canvas").getContext("webgl2");
      const names = probe && probe.getExtension("WEBGL_debug_renderer_info");
      const card = probe ? String(probe.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : probe.RENDERER)) : "";
      if (probe && (wanted === "webgl" || !SOFTWARE.test(card))) return ["webgl", new CardPainter(canvas), canvas];
    } catch {  // the driver is broken, and a canvas that was given to it draws nothing else
      const fresh = canvas.cloneNode();
      canvas.replaceWith(fresh);
      canvas = fresh;
    }
  }
  return ["pixels", new PixelPainter(canvas), canvas];
}

export class PointMap {
  // box: an element with two canvases; told: {hover(row, x, y), pick(row), lasso(rows), moved()}
  constructor(box, told, wanted = "") {
    const [canvas, over] = box.querySelectorAll("canvas");
    [this.kind, this.painter, this.canvas] = painter(canvas, wanted);
    this.over = over;
    Object.assign(this, { box, told, budget: 20000, moving: false, drawn: 0, count: 0, paper: 0xffffffff,
      centre: [0, 0], zoom: 1, lassoing: false, trail: null, rim: false, hovered: -1, picked: -1, labels: [], marks: [] });
    this.frames = [];  // milliseconds between the last frames, for the benchmark
    new ResizeObserver(() => this.resize()).observe(box);
    this.listen();
    this.resize();
  }

  load(points) {
    Object.assign(this, { points, count: points.x.length, hovered: -1, picked: -1 });
    this.painter.load(points, shuffled(this.count));
  }

  dress(colours, inside, outside, paper, ink) {  // (n,) Uint32 ABGR, (n,) Uint8; the colour outside the filter
    Object.assign(this, { colours, inside, paper, ink });
    const above = inside.map((yes, row) => (yes && colours[row] !== outside ? 1 : 0));  // what is pale lies below
    this.painter.dress(colours, above, outside);
    this.refresh();
  }

  resize() {
    const { clientWidth, clientHeight } = this.box, sharp = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.canvas, this.over]) {
      canvas.width = Math.max(Math.round(clientWidth * sharp), 1);
      canvas.height = Math.max(Math.round(clientHeight * sharp), 1);
    }
    this.sharp = sharp;
    this.refresh();
  }

  get view() {
    const { width, height } = this.canvas;
    const size = this.sharp * Math.min(Math.min(Math.max(450 / Math.sqrt(this.count + 1) ** 1.1, 2.2), 7) * this.zoom ** 0.35, 11);
    return { width, height, x: this.centre[0], y: this.centre[1], size,
      scale: 0.46 * Math.min(width, height) * this.zoom };
  }

  fit() { this.centre = [0, 0]; this.zoom = 1; this.move(); }

  look(x, y, zoom) { this.centre = [x, y]; this.zoom = Math.min(Math.max(zoom, 0.5), 4000); this.move(); }

  move() {  // the view has changed: draw what fits into a frame, fill in later
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => { this.moving = false; this.next(); }, 140);
    this.told.moved?.();
    this.refresh();
  }

  refresh() { this.drawn = 0; this.clean = true; this.next(); }

  next() {
    if (this.waiting || !this.count || !this.colours) return;
    this.waiting = true;
    requestAnimationFrame((now) => { this.waiting = false; this.frame(now); });
  }

  frame(now) {
    const took = now - (this.last || now);
    this.last = now;
    if (took > 0 && took < 250) {  // a longer one was a pause
      this.frames.push(took);
      if (this.frames.length > 600) this.frames.shift();
      if (took > FRAME) this.budget = Math.max(this.budget * 0.75, Math.min(this.painter.least, this.count));
      else if (took < 0.7 * FRAME) this.budget = Math.min(this.budget * 1.08, this.count);
    }
    const view = this.view;
    if (this.clean) {
      this.painter.begin(view, this.paper);
      this.clean = false;
      this.annotate(view);
    }
    [this.drawn, this.painted] = this.painter.draw(this.drawn, this.budget);
    if (this.drawn < this.count && !this.moving) this.next();
    this.box.dataset.drawn = this.drawn >= this.count ? "all" : String(this.drawn);
  }

  onPage(x, y) {
    const view = this.view;
    return [(view.width / 2 + (x - view.x) * view.scale) / this.sharp,
      (view.height / 2 - (y - view.y) * view.scale) / this.sharp];
  }

  inPlane(px, py) {
    const view = this.view;
    return [view.x + (px * this.sharp - view.width / 2) / view.scale,
      view.y - (py * this.sharp - view.height / 2) / view.scale];
  }

  nearest(px, py, reach = 14) {  // the row at a place of the page; rows of the filter go before others
    if (!this.count) return -1;
    const [x, y] = this.inPlane(px, py), most = (reach * this.sharp / this.view.scale) ** 2;
    let best = -1, least = most;
    for (let row = 0; row < this.count; row++) {
      const away = (this.points.x[row] - x) ** 2 + (this.points.y[row] - y) ** 2 + (this.inside[row] ? 0 : most / 2);
      if (away < least) { least = away; best = row; }
    }
    return best;
  }

  within(trail) {  // the rows of the filter inside a polygon of the page
    const plane = trail.map(([px, py]) => this.inPlane(px, py)), rows = [];
    for (let row = 0; row < this.count; row++) {
      if (!this.inside[row]) continue;
      const x = this.points.x[row], y = this.points.y[row];
      let inside = false;
      for (let i = 0, j = plane.length - 1; i < plane.length; j = i++) {
        const [ax, ay] = plane[i], [bx, by] = plane[j];
        if (ay > y !== by > y && x < (bx - ax) * (y - ay) / (by - ay) + ax) inside = !inside;
      }
      if (inside) rows.push(row);
    }
    return rows;
  }

  annotate(view) {  // names of nodes, the rim of a disk, the marked points and the lasso
    const context = this.over.getContext("2d"), sharp = this.sharp;
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    context.strokeStyle = context.fillStyle = this.ink;
    if (this.rim) {
      const [x, y] = this.onPage(0, 0);
      context.lineWidth = 1;
      context.beginPath();
      context.arc(x, y, view.scale / sharp, 0, 7);
      context.stroke();
    }
    this.writeNames(context, view);
    for (const [row, radius] of [...this.marks.map((row) => [row, 5]), [this.picked, 9], [this.hovered, 7]]) {
      if (row < 0) continue;
      const [x, y] = this.onPage(this.points.x[row], this.points.y[row]);
      context.lineWidth = radius > 5 ? 2.5 : 1.5;
      context.strokeStyle = this.ink;
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.stroke();
    }
    if (this.trail?.length > 1) {
      context.setLineDash([5, 4]);
      context.lineWidth = 1.5;
      context.beginPath();
      this.trail.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
      context.setLineDash([]);
    }
  }

  writeNames(context, view) {  // of the nodes whose samples are neither a dot nor the whole view; coarser first
    const width = view.width / this.sharp, height = view.height / this.sharp, taken = [];
    const most = width < 500 ? 12 : 30;
    context.textAlign = "center";
    context.lineJoin = "round";
    const paper = `rgb(${this.paper & 255} ${this.paper >> 8 & 255} ${this.paper >> 16 & 255})`;
    for (const { x, y, spread, name, depth } of this.labels) {
      if (taken.length >= most) break;
      const [px, py] = this.onPage(x, y), reach = spread * view.scale / this.sharp;
      if (px < 0 || py < 14 || px > width || py > height || reach > 0.5 * width || (depth > 1 && reach < 8)) continue;
      context.font = `${depth > 1 ? 500 : 650} ${depth > 1 ? 12.5 : 14}px system-ui, sans-serif`;
      const half = context.measureText(name).width / 2 + 4;
      if (px - half < 0 || px + half > width) continue;
      const box = [px - half, py - 10, px + half, py + 9];
      if (taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) continue;
      taken.push(box);
      context.lineWidth = 4;
      context.strokeStyle = paper;
      context.strokeText(name, px, py + 4);
      context.fillText(name, px, py + 4);
    }
  }

  name(labels) { this.labels = labels; this.annotate(this.view); }

  mark(row) { this.picked = row; if (this.count) this.annotate(this.view); }

  point(row, px, py) {
    if (row === this.hovered) return;
    this.hovered = row;
    if (this.count) this.annotate(this.view);
    this.told.hover(row, px, py);
  }

  listen() {
    const held = new Map(), box = this.box;
    let began = null;
    const at = (event) => {
      const frame = box.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    box.addEventListener("pointerdown", (event) => {
      if (event.button || event.target.closest("button, select, a")) return;
      const place = at(event);
      held.set(event.pointerId, place);
      box.setPointerCapture(event.pointerId);
      began = held.size === 1 ? place : null;
      if (held.size === 1 && (this.lassoing || event.shiftKey)) this.trail = [place];
      else this.trail = null;
    });
    box.addEventListener("pointermove", (event) => {
      const place = at(event), before = held.get(event.pointerId);
      if (!before) {
        if (event.pointerType === "mouse") this.point(this.nearest(...place), ...place);
        return;
      }
      if (this.trail) {
        this.trail.push(place);
        this.annotate(this.view);
      } else if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, where]) => where);
        const apart = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
        this.zoomAt(apart(place) / apart(before), (place[0] + other[0]) / 2, (place[1] + other[1]) / 2);
      } else if (held.size === 1) {
        const unit = this.sharp / this.view.scale;
        this.centre = [this.centre[0] - (place[0] - before[0]) * unit, this.centre[1] + (place[1] - before[1]) * unit];
        if (!began || Math.hypot(place[0] - began[0], place[1] - began[1]) > 4) this.move();
      }
      held.set(event.pointerId, place);
    });
    const end = (event) => {
      if (!held.delete(event.pointerId)) return;
      const place = at(event), trail = this.trail;
      if (trail) {
        this.trail = null;
        const rows = trail.length > 3 ? this.within(trail) : [];
        this.annotate(this.view);
        if (event.type === "pointerup") this.told.lasso(rows);
      } else if (event.type === "pointerup" && began && Math.hypot(place[0] - began[0], place[1] - began[1]) <= 4) {
        const row = this.nearest(...place, event.pointerType === "mouse" ? 14 : 24);
        if (row >= 0) this.told.pick(row);
      }
      began = null;
    };
    box.addEventListener("pointerup", end);
    box.addEventListener("pointercancel", end);
    box.addEventListener("pointerleave", () => this.point(-1, 0, 0));
    box.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 18 : 1;
      this.zoomAt(Math.exp(-Math.max(Math.min(event.deltaY * lines, 240), -240) / 300), ...at(event));
    }, { passive: false });
    box.addEventListener("keydown", (event) => {
      const step = 0.12 / this.zoom, { width, height } = box.getBoundingClientRect();
      const pan = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (pan) this.look(this.centre[0] + step * pan[0], this.centre[1] + step * pan[1], this.zoom);
      else if (event.key === "+" || event.key === "=") this.zoomAt(1.3, width / 2, height / 2);
      else if (event.key === "-") this.zoomAt(1 / 1.3, width / 2, height / 2);
      else if (event.key === "0") this.fit();
      else return;
      event.preventDefault();
    });
  }

  zoomAt(factor, px, py) {
    const [x, y] = this.inPlane(px, py), zoom = Math.min(Math.max(this.zoom * factor, 0.5), 4000);
    const ratio = this.zoom / zoom;
    this.look(x + (this.centre[0] - x) * ratio, y + (this.centre[1] - y) * ratio, zoom);
  }
}
