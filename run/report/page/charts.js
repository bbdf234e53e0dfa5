"use strict";
// Functions that make elements, numbers and charts. Text is set by textContent and attributes by setAttribute, so that
// data are not parsed as HTML.
const main = document.getElementById("main");
// Returns the color of line i: one of six colors of the style sheet, then hues spaced by the golden angle.
const color = i => i < 6 ? `var(--c${i})` : `hsl(${Math.round(i * 137.5) % 360} 55% 52%)`;
const CROWD = 6;  // with more lines than this, only wide charts have a legend, and the pointer reads the nearest line
const el = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const svgEl = (tag, attributes, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, typeof v === "number" ? Math.round(v * 10) / 10 : v);
  if (text !== undefined) e.textContent = text;
  return e;
};
const isNum = x => typeof x === "number" && isFinite(x);
function short(x) {
  if (!isNum(x)) return x === null || x === undefined ? "-" : String(x);
  if (x === 0) return "0";
  const a = Math.abs(x);
  if (Number.isInteger(x) && a < 1e7) return x.toLocaleString("en-US");
  return a >= 1e7 || a < 1e-3 ? x.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e") : String(Number(x.toPrecision(4)));
}
const tick = x => x >= 1024 && Number.isInteger(Math.log2(x)) ? (x >= 2 ** 20 ? x / 2 ** 20 + "Mi" : x / 1024 + "Ki") : Math.abs(x) >= 1e6 ? short(x / 1e6) + "M" : Math.abs(x) >= 1e4 ? short(x / 1e3) + "k" : short(x);
const bytes = b => !isNum(b) ? "-" : b >= 2 ** 30 ? (b / 2 ** 30).toFixed(2) + " GiB" : Math.round(b / 2 ** 20) + " MiB";
const time = s => !isNum(s) ? "-" : s < 90 ? s.toFixed(1) + " s" : s < 5400 ? (s / 60).toFixed(1) + " min" : (s / 3600).toFixed(1) + " h";

function section(title, wide, note, parent = main) {
  const s = el("section", undefined, wide ? "wide" : ""), h = el("h2", title);
  if (note) h.append(el("small", note));
  s.append(h);
  parent.append(s);
  return s;
}
// Starts a new row of the page.
const newRow = () => main.append(el("div", undefined, "break"));
const cell = (tag, text, cls, scope) => { const e = text instanceof Node ? el(tag, undefined, cls) : el(tag, text, cls); if (text instanceof Node) e.append(text); e.scope = scope; return e; };
// Returns an element with a text whose lines break after commas, slashes, underscores and spaces, and not at the
// hyphens of "lr=1e-5". Pieces of more than `most` characters break anywhere.
function pieces(text, most = 28) {
  const out = el("span", undefined, "pieces");
  for (const p of String(text).split(/(?<=[,/ _])/)) out.append(el("span", p, p.length > most ? "long" : ""), el("wbr"));
  return out;
}
function table(parent, head, rows, words, cls) {
  const box = el("div", undefined, "scroll"), t = el("table", undefined, cls || ""), h = el("tr");
  head.forEach((x, i) => h.append(x === "" ? el("td") : cell("th", x, i && !words ? "num" : "", "col")));
  if (head.length) t.append(h);
  for (const r of rows) {
    const tr = el("tr");
    r.forEach((x, i) => tr.append(x instanceof Node ? x : i ? el("td", short(x), words ? "text" : "num") : cell("th", pieces(short(x)), "row", "row")));
    t.append(tr);
  }
  box.append(t);
  parent.append(box);
  return t;
}
function smooth(y) {  // returns an exponential moving average over about a fiftieth of the run
  const k = Math.min(0.98, 1 - 1 / Math.max(1, y.length / 50));
  let m = 0, w = 0;
  return y.map(v => { if (!isNum(v)) return null; m = k * m + (1 - k) * v; w = k * w + (1 - k); return m / w; });
}
function ticks(lo, hi, n) {
  const raw = (hi - lo) / n || 1, p = 10 ** Math.floor(Math.log10(raw)), out = [];
  const step = [1, 2, 5, 10].map(k => k * p).find(v => v >= raw) || 10 * p;
  for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-9 && out.length < 50; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}

// Returns the interval [from, to] of the vertical axis for the values ys; opts are those of chart().
function range(ys, opts) {
  let y0 = Infinity, y1 = -Infinity;
  for (const y of ys) { y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
  if (opts.zero && !opts.log) y0 = Math.min(0, y0);
  if (opts.clip) {  // the axis ends below a few large spikes, so that the rest of the curve is visible
    const q = ys.slice().sort((a, b) => a - b), top = q[Math.floor(0.995 * (q.length - 1))];
    if (y1 > top + 3 * (top - y0)) y1 = top + 0.5 * (top - y0);
  }
  if (y1 - y0 < 1e-12 * Math.max(1, Math.abs(y1))) { const d = opts.log ? 1 : Math.abs(y0) * 0.1 || 1; return [opts.zero ? y0 : y0 - d, y1 + d]; }
  const d = 0.05 * (y1 - y0);
  return [opts.zero && y0 === 0 ? y0 : y0 - d, y1 + d];
}
function pathOf(line, X, Y, map, steps) {
  let d = "", on = false;
  line.x.forEach((x, i) => {
    if (!isNum(line.y[i]) || !isFinite(map(line.y[i]))) { on = false; return; }
    const px = X(x).toFixed(1), py = Y(line.y[i]).toFixed(1);
    d += !on ? `M${px} ${py}` : steps ? `H${px}V${py}` : `L${px} ${py}`;
    on = true;
  });
  return d;
}
function axes(svg, g, X, Y, opts) {
  const yt = ticks(g.y0, g.y1, g.H < 200 ? 4 : 5);
  for (const t of opts.log ? yt.filter(Number.isInteger) : yt) {
    const v = opts.log ? 2 ** t : t, y = Y(v);
    svg.append(svgEl("line", { x1: g.L, x2: g.W - g.R, y1: y, y2: y, stroke: "var(--grid)" }),
      svgEl("text", { x: g.L - 6, y: y + 4, "text-anchor": "end" }, tick(v)));
  }
  for (const t of ticks(g.x0, g.x1, Math.max(3, Math.floor(g.W / 90))).filter(Number.isInteger))
    svg.append(svgEl("text", { x: X(t), y: g.H - 6, "text-anchor": "middle" }, short(t)));
}
// Charts are drawn after all were added to the page, because the last ones of a row share its width.
let undrawn = [], scant = [];
const count = line => line.y.filter(isNum).length;
// lines: {name, color, x, y, dots, faint}; opts: wide, zero, log, clip, steps, marks: steps with a red line, unit,
// told: another table has the values of short lines
function chart(title, lines, opts = {}) {
  lines = lines.filter(l => l.y.some(isNum));
  const map = opts.log ? v => v > 0 ? Math.log2(v) : NaN : v => v;
  const ys = lines.flatMap(l => l.y.filter(isNum).map(map)).filter(isFinite);
  if (!ys.length) return;
  if (Math.max(...lines.map(count)) <= 2) { if (!opts.told) scant.push(...lines.filter(l => !l.faint && !l.dots).map(l => [title, l])); return; }
  const s = section(title, opts.wide, opts.note);
  undrawn.push(() => draw(s, title, lines, map, ys, opts));
}
// Adds a table of the lines that chart() did not draw, because one or two values make no curve.
function numbers(one) {
  if (!scant.length) return;
  const at = (l, i) => { const k = l.x.filter((_, j) => isNum(l.y[j])), v = l.y.filter(isNum); return i < v.length ? `${short(v[i])} (${short(k[i])})` : "-"; };
  table(section("Steps", true, "in parentheses: the step"), ["", "first", "last"], scant.map(([title, l]) => [one ? title : `${title}, ${l.name}`, at(l, 0), at(l, Math.max(0, count(l) - 1))]));
}
function drawAll() {
  for (const f of undrawn) f();
  undrawn = []; scant = [];
  for (const e of main.querySelectorAll(".scroll, .text")) {
    if (e.scrollWidth <= e.clientWidth + 1 && e.scrollHeight <= e.clientHeight + 1) continue;
    const h = (e.closest("section") || main).querySelector("h2");
    // With a tab index, keys can scroll the element.
    e.tabIndex = 0; e.setAttribute("role", "group"); e.setAttribute("aria-label", h ? h.firstChild.textContent : "text");
  }
}
function draw(s, title, lines, map, ys, opts) {
  const W = Math.max(240, s.clientWidth - 28);
  const g = { W, H: opts.wide ? (W < 600 ? 220 : 300) : 210, L: 50, R: 12, T: 8, B: 24 };
  let x0 = Infinity, x1 = -Infinity;
  for (const l of lines) for (const x of l.x) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
  g.x0 = x0; g.x1 = x1 === x0 ? x0 + 1 : x1;
  [g.y0, g.y1] = range(ys, opts);
  const X = v => g.L + (v - g.x0) / (g.x1 - g.x0) * (g.W - g.L - g.R);
  const Y = v => g.T + (g.y1 - Math.max(g.y0, Math.min(g.y1, map(v)))) / (g.y1 - g.y0) * (g.H - g.T - g.B);
  const told = l => { const v = l.y.filter(isNum), k = l.x.filter((_, i) => isNum(l.y[i])); return `${l.name} from ${short(v[0])} at ${short(k[0])} to ${short(v[v.length - 1])} at ${short(k[k.length - 1])}`; };
  const svg = svgEl("svg", { viewBox: `0 0 ${g.W} ${g.H}`, role: "img", tabindex: "0", "aria-label": `${title}: ${lines.filter(l => !l.faint).slice(0, CROWD).map(told).join("; ")}` });
  axes(svg, g, X, Y, opts);
  for (const m of opts.marks || []) if (isNum(m)) svg.append(svgEl("line", { x1: X(m), x2: X(m), y1: g.T, y2: g.H - g.B, stroke: "var(--bad)", opacity: "0.6", class: "mark" }));
  for (const l of lines) {
    const n = count(l);
    if (n > 2 || !l.dots) svg.append(svgEl("path", { d: pathOf(l, X, Y, map, opts.steps), fill: "none", stroke: l.color, "stroke-width": l.faint ? "1" : "1.8",
      opacity: l.faint ? "0.35" : "1", "stroke-linejoin": "round", class: "curve" }));
    if (l.dots || n === 1) l.x.forEach((x, i) => { if (isNum(l.y[i])) svg.append(svgEl("circle", { cx: X(x), cy: Y(l.y[i]), r: 3.5, fill: l.color })); });
  }
  readout(s, svg, lines, g, X, Y, opts);
}
// Adds the line below a chart: the legend, or the values under the pointer.
function readout(s, svg, lines, g, X, Y, opts) {
  const at = svgEl("line", { y1: g.T, y2: g.H - g.B, stroke: "var(--soft)", visibility: "hidden" }), read = el("div", undefined, "read");
  svg.append(at);
  const item = (line, text) => { const i = el("span", undefined, "item"), k = el("span", undefined, "key"); k.style.background = line.color; i.append(k, text); read.append(i, " "); };
  const crowd = lines.filter(l => !l.faint).length > CROWD;
  const legend = () => {
    read.textContent = "";
    if (crowd && !opts.wide) read.append("colors as in the first chart");
    else for (const l of lines) if (!l.faint) item(l, l.name);
    if ((opts.marks || []).length) read.append(el("span", "| skipped steps", "bad"));
  };
  let step;
  const show = (x, y) => {
    read.textContent = "";
    step = undefined;
    const read_at = [];
    for (const l of lines) {
      if (l.faint) continue;
      let b = 0;
      l.x.forEach((v, i) => { if (Math.abs(v - x) < Math.abs(l.x[b] - x)) b = i; });
      if (step === undefined) step = l.x[b];
      read_at.push([l, b, isNum(l.y[b]) ? Math.abs(Y(l.y[b]) - y) : Infinity]);
    }
    if (crowd) read_at.sort((a, b) => a[2] - b[2]);
    for (const [l, b] of crowd ? read_at.slice(0, 1) : read_at) item(l, `${l.name} ${short(l.y[b])} at ${short(l.x[b])}`);
    at.setAttribute("x1", X(step)); at.setAttribute("x2", X(step)); at.setAttribute("visibility", "visible");
  };
  const point = e => { const r = svg.getBoundingClientRect(); show(g.x0 + ((e.clientX - r.left) / r.width * g.W - g.L) / (g.W - g.L - g.R) * (g.x1 - g.x0), (e.clientY - r.top) / r.height * g.H); };
  const leave = () => { at.setAttribute("visibility", "hidden"); step = undefined; legend(); };
  const xs = lines.find(l => !l.faint).x;
  const key = e => {  // arrows go from step to step
    const to = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[e.key], last = xs.length - 1;
    if (!to) return;
    e.preventDefault();
    read.setAttribute("aria-live", "polite");
    const now = step === undefined ? (to > 0 ? -1 : xs.length) : xs.indexOf(step);
    show(xs[Math.max(0, Math.min(last, now + to))], 0);
  };
  legend();
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("keydown", key);
  svg.addEventListener("blur", leave);
  s.append(svg, read);
}
