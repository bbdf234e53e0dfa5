// The report itself: DATA is {"runs": [..], "running", "updated"} (run/report/report_data.h).
const BEST_FIRST = ["accuracy", "macro_f1", "miou", "exact_match", "span_f1", "rmse", "pearson", "perplexity", "loss"];
const flat = m => Object.entries(m || {}).filter(([k, v]) => isNum(v) && k !== "samples");
const lastOf = list => list[list.length - 1];
let DATA = JSON.parse(document.getElementById("data").textContent);

// Returns the names of the runs without the parent folders that all of them have in common.
function names(runs) {
  const parts = runs.map(r => r.name.split("/"));
  let same = 0;
  while (runs.length > 1 && parts.every(p => p.length > same + 1 && p[same] === parts[0][same])) ++same;
  return parts.map((p, i) => p.slice(same).join("/") + (runs[i].note ? ` (${runs[i].note})` : ""));
}
const MANY = 4;  // with more runs than this, tables have a row per run
function toldMetrics(run, end) {
  const told = (run.told_metrics || []).filter(k => isNum(end[k]));
  return told.length ? told : BEST_FIRST.filter(k => isNum(end[k])).slice(0, 2);
}
// Returns the metrics of the last evaluation: of the exported file or, while the run goes on, of the current weights.
const endOf = r => r.run.final_metrics || lastOf(r.evals) || {};

function head(runs, one) {
  const r = runs[0], info = r.run, end = endOf(r), s = info.steps || {}, t = info.timing || {};
  document.title = one ? "Report: " + r.name : "Report: " + runs.length + " runs";
  document.getElementById("title").replaceChildren(pieces(one ? r.name : runs.length > MANY ? runs.length + " runs" : names(runs).join(" · ")));
  const state = document.getElementById("state"), about = document.getElementById("about"), facts = document.getElementById("facts");
  facts.textContent = state.textContent = about.textContent = "";
  if (!one) { about.textContent = runs.length > MANY ? "compared" : `${runs.length} runs compared`; return; }
  const [word, cls] = info.finished ? ["finished", "good"] : DATA.running ? ["running", "on"] : ["not finished", "bad"];
  state.textContent = word; state.className = cls;
  const model = String((info.config || {}).model || "");
  about.textContent = [model, info.finished ? info.finished_at : "", String(info.version || "").trim()].filter(x => x).join(" · ");
  const skipped = r.skipped_count, applied = info.finished ? s.applied : r.count - skipped, loss = lastOf(r.steps.loss.filter(isNum));
  const list = [["steps applied", short(applied)], ["steps skipped", short(skipped), skipped ? "bad" : ""]];
  for (const k of toldMetrics(info, end).slice(0, 3)) list.push([k, short(end[k])]);
  list.push(["last training loss", short(loss)], ["samples a second", short(info.finished ? t.samples_per_s : lastOf(r.steps.samples_per_s.filter(isNum)))]);
  if (info.finished) list.push(["training time", time(t.train_seconds)]);
  list.push(["peak memory", bytes(info.finished ? info.peak_memory_bytes : lastOf(r.steps.memory.filter(isNum)))], ["computes in", (info.precision || {}).dtype || "-"]);
  if (s.best >= 0 && info.finished) list.push(["best step", short(s.best)]);
  const room = Math.max(1, Math.floor(facts.clientWidth / 126));
  facts.style.setProperty("--per-row", Math.ceil(list.length / Math.ceil(list.length / room)));  // all rows have about equally many facts
  for (const [k, v, c] of list) { const f = el("div", undefined, "fact"); f.append(el("b", v, c || ""), el("span", k)); facts.append(f); }
}

function curves(runs, one) {
  const label = names(runs), first = runs[0], loss = [];
  const points = r => [...(r.run.initial_metrics ? [Object.assign({ step: 0 }, r.run.initial_metrics)] : []), ...r.evals];
  runs.forEach((r, i) => {
    if (runs.length <= MANY) loss.push({ name: "loss of each step", color: color(i), x: r.steps.step, y: r.steps.loss, faint: true });
    loss.push({ name: one ? "training loss, smoothed" : label[i], color: color(i), x: r.steps.step, y: smooth(r.steps.loss) });
    if (one && r.evals.length) loss.push({ name: "evaluation loss", color: color(1), dots: true, x: points(r).map(e => e.step), y: points(r).map(e => e.loss) });
  });
  chart("Loss", loss, { wide: true, clip: true, note: "by step" });
  if (one && first.lr_range) {
    const r = first.lr_range, x = (r.lr || []).map(Math.log10);
    chart("Loss by learning rate", [{ name: "loss of each step", color: color(0), x, y: r.loss || [], faint: true },
      { name: "smoothed", color: color(0), x, y: r.smoothed_loss || [] }], { wide: true, clip: true, note: "across: log10 of the rate" });
    const why = { valley: "two thirds down the longest descent: the usual choice", steep: "where the loss falls fastest", minimum_tenth: "a tenth of the rate of the lowest loss" };
    table(section("Suggested rates", true), ["--lr", "why"], Object.keys(why).filter(k => isNum((r.suggested || {})[k])).map(k => [short(r.suggested[k]), why[k]]), true);
  }
  const evaluated = [...new Set(runs.flatMap(r => r.evals.flatMap(e => Object.keys(e).filter(k => isNum(e[k])))))].filter(k => !["step", "epoch", "samples", "loss", "best"].includes(k));
  const told = runs.flatMap(r => toldMetrics(r.run, endOf(r)));
  evaluated.sort((a, b) => told.includes(b) - told.includes(a));
  for (const key of evaluated.slice(0, 4))
    chart(key, runs.map((r, i) => ({ name: one ? "evaluation" : label[i], color: color(i), dots: true, x: points(r).map(e => e.step), y: points(r).map(e => e[key]) })), { note: "evaluation", told: true });
  const each = (title, key, opts = {}, unit = 1) => chart(title, runs.map((r, i) => ({ name: one ? title.toLowerCase() : label[i], color: color(i), x: r.steps.step,
    y: (r.steps[key] || []).map(v => isNum(v) ? v / unit : null) })), Object.assign(opts, { marks: one && opts.skips ? first.skipped : [] }));
  each("Learning rate", "lr", { zero: true });
  each("Gradient norm", "grad_norm", { clip: true, zero: true });
  if (runs.some(r => new Set(r.steps.loss_scale).size > 1 || r.skipped_count || r.steps.loss_scale[0] > 1))
    each("Loss scale", "loss_scale", { log: true, steps: true, skips: true, note: skips(runs, label) });
  each("Samples a second", "samples_per_s", { zero: true, clip: true });
  each("Memory", "memory", { zero: true, note: "peak, MiB" }, 2 ** 20);
  numbers(one);
  newRow();
}
function skips(runs, label) {
  if (runs.length === 1) return `${short(runs[0].skipped_count)} skipped`;
  const some = runs.map((r, i) => [label[i], r.skipped_count]).filter(([, n]) => n);
  if (!some.length) return "no step skipped";
  return some.slice(0, MANY).map(([name, n]) => `${name}: ${short(n)} skipped`).join(", ") + (some.length > MANY ? `, and ${some.length - MANY} runs more` : "");
}
// Adds a table about the training of a run without an evaluation.
function training(r) {
  const loss = r.steps.loss.filter(isNum), norm = r.steps.grad_norm.filter(isNum).sort((a, b) => a - b), t = r.run.timing || {}, config = r.run.config || {};
  const mean = v => v.reduce((a, b) => a + b, 0) / v.length, tenth = Math.ceil(loss.length / 10), rows = [];
  if (loss.length > 2) rows.push(["loss, mean of the first tenth of the steps", mean(loss.slice(0, tenth))], ["loss, mean of the last tenth", mean(loss.slice(-tenth))], ["lowest loss of a step", Math.min(...loss)]);
  if (norm.length > 2) rows.push(["gradient norm, median", norm[norm.length >> 1]], ["gradient norm, largest", lastOf(norm)]);
  if (t.tokens_per_s > 0) rows.push(["tokens a second", t.tokens_per_s]);
  if (t.train_seconds > 0) rows.push(["share of the time that waited for data", (100 * (t.data_seconds || 0) / t.train_seconds).toFixed(0) + " %"]);
  if ((r.run.labels || []).length) rows.push(["classes", r.run.labels.length]);
  const stack = el("div", undefined, "stack");
  main.append(stack);
  if (rows.length) table(section("Training", false, undefined, stack), [], rows, false, "full");
  const s = section("No evaluation", false, undefined, stack), asked = config.val && config.val.length || config.val_split > 0;
  s.append(el("p", asked ? "The first evaluation has not been done yet." : "This run had no data to evaluate on, so the page cannot say how good the model is. Its loss is that of the training data, which falls also where a model only memorizes."));
  if (!asked) s.append(el("p", "With --val FILE, or with --val_split 0.1, the page has metrics before and after, a confusion matrix and the worst errors. For the model of this run:"),
    el("pre", `onnx-amp-finetune eval ${shellWord(r.name)} --val FILE`, "copy"));
}

function metrics(runs, one) {
  const label = names(runs), r = runs[0], end = endOf(r);
  if (one) {
    if (!flat(end).length) { if (!r.lr_range) training(r); return; }
    const before = r.run.initial_metrics || {};
    table(section("Evaluation", false, r.run.final_metrics ? "before training, and of model.onnx" : "before training, and the last one"), ["metric", "before", "after"],
      flat(end).filter(([k]) => !says_nothing(k, end)).map(([k, v]) => [k, before[k], v]), false, "full");
    const stack = el("div", undefined, "stack");
    if (end.per_class || end.confusion_matrix) main.append(stack);
    if (end.per_class) table(section("By class", false, undefined, stack), ["class", "precision", "recall", "f1", "rows"], Object.entries(end.per_class).map(([k, v]) => [k, v.precision, v.recall, v.f1, v.support]), false, "full");
    matrix(end.confusion_matrix, r.run.labels || [], stack);
    return;
  }
  const s = section("Comparison", true, runs.length > MANY ? "★ the best" : "★ the best; in parentheses: multiples of the first run's");
  const rows = [...differing(runs), ...results(runs)];
  if (runs.length > MANY) table(s, ["run", ...rows.map(x => x.name)], runs.map((_, i) => [cell("th", pieces(label[i]), "row name", "row"), ...rows.map(x => x.cells[i])]), false, "full runs");
  else table(s, ["", ...label.map(pieces)], rows.map(x => [x.name, ...x.cells]));
}
// Returns whether a row of metrics repeats another one: log_loss of a plain cross entropy; in runs of earlier versions,
// the top 5 of at most 5 classes.
const says_nothing = (k, end) => ["step", "epoch"].includes(k) || k === "log_loss" && short(end.log_loss) === short(end.loss) ||
  k === "top5_accuracy" && Array.isArray(end.confusion_matrix) && end.confusion_matrix.length <= 5;
const setting = v => v === undefined ? "-" : typeof v === "object" ? JSON.stringify(v) : String(v);
// Returns a row for each setting in which the runs differ.
function differing(runs) {
  const of = (r, k) => setting((r.run.config || {})[k]), derived = k => runs.every(r => (r.run.sources || {})[k] === "derived");
  return [...new Set(runs.flatMap(r => Object.keys(r.run.config || {})))].filter(k => k !== "output_dir" && !derived(k) && new Set(runs.map(r => of(r, k))).size > 1)
    .map(k => ({ name: k, cells: runs.map(r => { const td = el("td", undefined, "num setting"); td.append(pieces(of(r, k), 16)); return td; }) }));
}
// Returns a row for each number that the runs ended with. The best one is marked, unless all are equal.
function results(runs) {
  const lower = new Set(DATA.lower_is_better || []), plain = (name, cells) => ({ name, cells });
  const ratio = (v, of) => runs.length <= MANY && isNum(v) && isNum(of) && of > 0 ? ` (${(v / of).toFixed(2)})` : "";
  const row = (name, get, show, sign, ratios) => {
    const values = runs.map(get), known = values.filter(isNum), best = sign > 0 ? Math.max(...known) : Math.min(...known);
    const marked = sign && new Set(known.map(show)).size > 1;  // no mark if all values are shown equal
    return { name, cells: values.map((v, i) => { const is = marked && isNum(v) && show(v) === show(best); return el("td", show(v) + (i && ratios ? ratio(v, values[0]) : "") + (is ? " ★" : ""), is ? "num best" : "num"); }) };
  };
  const memory = r => (r.run.device_memory || {}).peak_memory_bytes || r.run.peak_memory_bytes, timing = k => r => (r.run.timing || {})[k];
  const keys = [...new Set(runs.flatMap(x => [...toldMetrics(x.run, endOf(x)), ...flat(endOf(x)).map(([k]) => k)]))].filter(k => !runs.every(r => says_nothing(k, endOf(r))));
  const equal = new Set(runs.map(r => r.count)).size === 1;  // if the numbers of steps differ, no run is marked for its short time
  return [...keys.map(k => row(k, r => endOf(r)[k], short, lower.has(k) ? -1 : 1)),
    row("training time", timing("train_seconds"), time, equal ? -1 : 0, true), row("samples a second", timing("samples_per_s"), short, 1, true), row("peak memory", memory, bytes, -1, true),
    plain("computes in", runs.map(r => el("td", setting((r.run.precision || {}).dtype), "num"))),
    row("steps applied", r => (r.run.steps || {}).applied, short, 0), row("steps skipped", r => r.skipped_count, short, 0)];
}
function matrix(counts, labels, parent) {
  if (!Array.isArray(counts) || counts.length > 40 || !counts.every(Array.isArray)) return;
  const s = section("Confusion matrix", false, "rows: labels, columns: predictions", parent), box = el("div", undefined, "scroll"), t = el("table", undefined, "matrix"), h = el("tr");
  const name = i => String(labels[i] === undefined ? i : labels[i]);
  h.append(el("td"));
  counts.forEach((_, j) => h.append(cell("th", name(j), "", "col")));
  t.append(h);
  counts.forEach((row, i) => {
    const tr = el("tr"), sum = row.reduce((a, b) => a + (isNum(b) ? b : 0), 0) || 1;
    tr.append(cell("th", name(i), "", "row"));
    row.forEach((v, j) => { const td = el("td", short(v), i === j ? "hit" : ""); if (isNum(v)) td.style.background = `rgba(var(--heat), calc(var(--most) * ${(v / sum).toFixed(3)}))`; tr.append(td); });
    t.append(tr);
  });
  box.append(t); s.append(box);
}

const isPicture = x => typeof x === "string" && x.startsWith("data:image/png;base64,");
function image(source, cls, alt) { const i = el("img", undefined, cls || ""); i.alt = alt; i.src = source; return i; }
function worst(samples) {
  const list = samples.worst || [];
  if (!list.length || isPicture(list[0].predicted_mask)) return;
  const box = el("div", undefined, "samples");
  const kinds = { regression: ["distance", "label", "predicted"], retrieval: ["rank", "wanted", "nearest"], language: ["loss", "costliest token", "predicted"] };
  const [error, wanted, said] = kinds[samples.task === "seq2seq" ? "language" : samples.task] || ["loss", "label", "predicted"];
  section("Worst errors", true, `of the evaluation at step ${short(samples.step)}, the largest ${error} first`).append(box);
  for (const x of list) {
    const card = el("div", undefined, "sample"), words = el("div"), verdict = el("div", undefined, "verdict");
    if (isPicture(x.picture)) card.append(image(x.picture, "picture", "the sample"));
    verdict.append(wanted + " ", el("b", x.label === "" ? "none" : x.label, "good"), `, ${said} `, el("b", x.predicted === "" ? "none" : x.predicted, "bad"));
    if (isNum(x.probability)) verdict.append(el("span", ` with ${(100 * x.probability).toFixed(1)} %`, "soft"));
    words.append(verdict);
    for (const [name, text] of Array.isArray(x.text) ? x.text : Object.entries(x.text || {})) {
      if (name === "file") continue;
      const t = el("div", undefined, "text");
      if ((x.text.length || 0) !== 1) t.append(el("span", name + ": ", "soft"));
      t.append(String(text));
      words.append(t);
    }
    words.append(el("div", `${x.where} · ${error} ${short(x.error)}`, "where"));
    card.append(words); box.append(card);
  }
}
function answers(given) {
  const list = x => Array.isArray(x) ? x : [], evals = list(given.evaluations), last = evals[evals.length - 1];
  if (!last) return;
  const box = el("div", undefined, "samples");
  section("Answers", true, `to the prompts of sample_prompts, at step ${short(last.step)}`).append(box);
  list(given.prompts).forEach((prompt, i) => {
    const card = el("div", undefined, "sample"), words = el("div"), before = evals.length > 1 ? evals[0] : undefined;
    words.append(el("div", String(prompt), "soft"), el("div", String(list(last.answers)[i]), "text"));
    if (before) words.append(el("div", `at step ${short(before.step)}: ${list(before.answers)[i]}`, "where"));
    card.append(words); box.append(card);
  });
}
function overlays(samples) {
  const part = (title, list, note) => {
    list = (list || []).filter(x => isPicture(x.predicted_mask));
    if (!list.length) return;
    const s = section(title, true, note), legend = el("div", undefined, "legend"), box = el("div", undefined, "masks");
    for (const c of samples.classes || []) { const i = el("span"), k = el("span", undefined, "key"); k.style.background = c.colour; i.append(k, c.name); legend.append(i); }
    s.append(legend, box);
    for (const x of list) {
      const f = el("figure"), layers = el("div", undefined, "layers");
      for (const [name, mask] of [["picture", null], ["label", x.label_mask], ["prediction", x.predicted_mask]]) {
        const d = el("div"), stack = el("div");
        stack.append(image(x.picture, "", name));
        if (mask) stack.append(image(mask, "", name));
        d.append(stack, el("span", name)); layers.append(d);
      }
      f.append(layers, el("figcaption", `${x.where} · ${(100 * x.error).toFixed(1)} % of the pixels wrong`)); box.append(f);
    }
  };
  part("Predictions", samples.always, `the first samples, at step ${short(samples.step)}`);
  part("Worst predictions", samples.worst, "the largest share of wrong pixels first");
}

function plan(p) {
  if (!p || !(p.operators || []).length) return;
  const types = [...new Set(p.operators.flatMap(o => Object.keys(o.types || {})))].sort(), s = section("Precision plan", false, `nodes by the type they compute in`);
  table(s, ["operator", ...types, "class"], p.operators.map(o => [o.op, ...types.map(t => o.types[t]), el("td", Object.keys(o.classes || {}).join(", "), "num")]), false, "full");
  const c = p.cost || {};
  s.append(el("p", (p.no_arithmetic > 0 ? `${short(p.no_arithmetic)} nodes more are without floating arithmetic.` : "") + (c.casts > 0 ? ` A micro-batch casts ${short(c.casts)} times (${bytes(c.cast_bytes)}), weights ${short(c.weight_casts)} times.` : "") + " precision_plan.json has every node and its rule.", "soft"));
  for (const w of p.warnings || []) s.append(el("p", String(w), "bad"));
}
function shellWord(x) { x = String(x); return /^[A-Za-z0-9_@%+=:,.\/-]+$/.test(x) ? x : "'" + x.replaceAll("'", "'\\''") + "'"; }
function command(run) {
  const config = run.config || {}, out = ["onnx-amp-finetune " + shellWord(config.model || "MODEL.onnx")];
  for (const k of Object.keys(run.sources || {})) {
    const v = config[k];
    if (["model", "output_dir"].includes(k) || v === undefined || ["default", "derived", "plan"].includes(run.sources[k])) continue;
    if (typeof v === "boolean") out.push(v ? "--" + k : "--no_" + k);
    else for (const x of Array.isArray(v) ? v : [v]) out.push(`--${k} ${shellWord(x)}`);
  }
  return [...out, "--output_dir NEW_FOLDER"].join(" \\\n  ");
}
function settings(runs, one) {
  const label = names(runs), many = runs.length > MANY ? section("Again", true, "each run into another folder, from where it was started") : null;
  runs.forEach((r, i) => {
    const config = r.run.config || {}, sources = r.run.sources || {}, d = el("details");
    const asked = Object.keys(config).filter(k => k in sources && sources[k] !== "default");
    if (one) table(section("Settings", true, "what was asked for"), ["setting", "value", "from"], asked.map(k => [k, setting(config[k]), sources[k]]), true, "settings");
    const again = many ? el("details") : section(one ? "Again" : "Again: " + label[i], true, "the same run into another folder, from where it was started");
    if (many) { again.append(el("summary", label[i])); many.append(again); }
    d.append(el("summary", "all settings, and the run's record"), el("pre", JSON.stringify(r.run, null, 1)));
    again.append(el("pre", command(r.run), "copy"), el("p", "or, with every setting as it was:", "soft"), el("pre", `onnx-amp-finetune --config ${shellWord(r.name + "/run.json")} --output_dir NEW_FOLDER`, "copy"), d);
  });
}

function render() {
  const runs = DATA.runs, one = runs.length === 1, open = [...main.querySelectorAll("details")].map(d => d.open), at = window.scrollY;
  main.style.minHeight = main.offsetHeight + "px";  // the scroll position stays while the page is rebuilt
  main.textContent = "";
  head(runs, one);
  if (!one) metrics(runs, one);
  curves(runs, one);
  if (one) {
    metrics(runs, one);
    plan(runs[0].plan);
    if (runs[0].answers) answers(runs[0].answers);
    if (runs[0].samples) { worst(runs[0].samples); overlays(runs[0].samples); }
  }
  settings(runs, one);
  drawAll();
  main.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
  main.style.minHeight = "";
  window.scrollTo(0, at);
}

// A page that a server sent requests new data from the server. A page that was opened as a file is reloaded while its
// run goes on.
let failures = 0;
function foot(text) { document.getElementById("foot").textContent = text; }
async function ask() {
  try {
    const answer = await fetch("report.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    failures = 0;
    DATA = JSON.parse(text);
    render();
    foot("Live: renewed every 2 seconds.");
  } catch (e) {
    if (++failures > 3) { DATA.running = false; head(DATA.runs, true); foot("The run has ended, or cannot be reached any more: report.html in its folder has all."); return; }
  }
  setTimeout(ask, 2000);
}
render();
let width = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; render(); } });
if (DATA.running && location.protocol.startsWith("http")) setTimeout(ask, 2000);
else if (DATA.running && Date.now() / 1000 - DATA.updated < 900) { foot("The run goes on: this page is loaded again every 15 seconds."); setTimeout(() => location.reload(), 15000); }
else if (DATA.running) foot("Written while the run went on, " + new Date(DATA.updated * 1000).toLocaleString() + ".");
