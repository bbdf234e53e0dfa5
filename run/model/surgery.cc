// Decides between the model's own head and a new one, by settings, task and number of classes, and applies the choice
// with importer/surgery/. Shapes come from shape inference for several sizes (probe.h), because image models
// need a minimum size. kept_outputs() must agree with apply_surgery(): it predicts the choice before the classes are
// ordered.

#include "run/model/surgery.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "importer/surgery/classifier.h"
#include "importer/surgery/cut.h"
#include "importer/surgery/head.h"
#include "run/model/adapters.h"
#include "run/model/operator_advice.h"
#include "run/model/probe.h"
#include "run/model/sentence_modules.h"
#include "run/model/unknown_task.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Returns the output with the model's own logits: `output`, else one named logits, else the last floating-point output.
int own_output(const ModelSpec& model, const SourceGraph& g) {
  if (!model.output.empty()) return g.find(model.output);
  int last = -1;
  for (const int v : g.outputs) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    if (x.name == "logits") return v;
    if (x.kind == SourceKind::temp && (is_float(x.dtype) || !x.dtype_known)) last = v;
  }
  return last;
}

std::string head_kind(const ModelSpec& model, const std::string& wanted) {
  if (model.head != "auto") return model.head;
  if (wanted != "none") return wanted;
  return !model.head_from.empty() ? "classification" : "none";
}

// Checks a resized classifier: the graph after it must still bind, and the output must have `labels` classes. Some
// models have the number of classes in a Reshape.
void require_labels(const SourceGraph& g, int output, int64_t labels, bool image) {
  const std::string hint = "cut the model before its head with `cut_at` and add a new one with `head`";
  Dims d;
  try {
    d = probe_some_size(g, {output})[static_cast<size_t>(output)];
  } catch (const Error& e) {
    Error with_hint(e.exit(), e.id(), e.fact(), e.hint().empty() ? hint : e.hint());
    for (const std::string& where : e.where()) with_hint.at(where);
    throw with_hint.at(cat("while the classifier was given ", labels, " outputs"));
  }
  const int64_t got = d.empty() ? -1 : image && d.size() > 1 ? d[1] : d.back();
  if (got != labels) {
    fail(Exit::unsupported, "E_CLASSIFIER",
         cat("with ", labels, " classes in the classifier, output '",
             printable(g.values[static_cast<size_t>(output)].name), "' has shape ", to_string(d)),
         hint);
  }
}

// Returns whether a convolution that predicts boxes or maps computes the output. The output is then not that of a
// classifier of whole images.
bool predicts_something_else(const ModelSpec& model, const SourceGraph& g, const Classifier& c, int output,
                             const std::string& kind) {
  return c.image && kind == "classification" && model.output.empty() &&
         classes_of_output(g, output, Task::classification) == 0 && inspect_task(g, true);
}

// Returns whether a layer with one output scores each token, [B, S]. Such a layer is not a classifier or regression of
// whole rows.
bool scores_tokens(const SourceGraph& g, const Classifier& c, int output, const std::string& kind) {
  if (c.labels != 1 || (kind != "classification" && kind != "regression" && kind != "multilabel")) return false;
  try {
    const Dims d = probe_some_size(g, {output})[static_cast<size_t>(output)];
    return d.size() == 2 && d[1] < 0;
  } catch (const Error&) {  // building the training graph will report the same error
    return false;
  }
}

// Returns true if training uses the model's own classifier, unchanged or resized. Fills in `out`.
bool use_own(const RunSpec& spec, SourceGraph& g, const std::string& kind, int64_t labels, SurgeryResult& out) {
  const int output = own_output(spec.model, g);
  if (output < 0) return false;
  const auto c = find_classifier(g, output);
  const bool asked = spec.model.num_labels > 0;
  const std::string& name = g.values[static_cast<size_t>(output)].name;
  if (!c) {
    if (!spec.model.output.empty()) out.outputs = {name};
    if (asked && kind == "none") {
      fail(Exit::unsupported, "E_CLASSIFIER",
           cat("no Gemm, MatMul or Conv with a weight of its own makes output '", printable(name), "'"),
           "name the output with `output`, or add a head with `head`");
    }
    return !spec.model.output.empty();
  }
  if (predicts_something_else(spec.model, g, *c, output, kind) || scores_tokens(g, *c, output, kind)) return false;
  // Two classes need no resized classifier if the model's own one has a single logit.
  const bool yes_or_no = labels == 2 && c->labels == 1 && kind == "classification" && !asked;
  if (labels == 0 || labels == c->labels || yes_or_no) {
    if (kind != "none" || asked) {
      out.outputs = {name};
      out.lines.push_back(cat("head: the model's own, output '", printable(name), "' with ", c->labels, " values"));
    }
    return kind != "none" || asked;
  }
  if (!asked) {
    if (!spec.model.output.empty()) {
      out.outputs = {name};
      return true;
    }
    fail(Exit::usage, "E_NUM_LABELS",
         cat("the model's classifier (output '", printable(name), "', ", g.describe_node(c->node), ") has ", c->labels,
             " outputs, the data have ", labels, " classes"),
         cat("`num_labels` ", labels, " replaces it by a new one of that size; `head` ",
             kind == "none" ? "classification" : kind, " adds a head on top of it"));
  }
  const std::vector<std::string> lines = resize_classifier(g, *c, labels, static_cast<uint64_t>(spec.device.seed));
  out.lines.insert(out.lines.end(), lines.begin(), lines.end());
  require_labels(g, output, labels, c->image);
  out.outputs = {name};
  return true;
}

}  // namespace

// Sets HeadOptions::probe, the shapes by which choose_head() finds the tensor that a new head reads.
static void probe_for_head(const SourceGraph& g, HeadOptions& h) {
  std::vector<int> probed = g.outputs;
  if (!h.from.empty() && g.find(h.from) >= 0) probed = {g.find(h.from)};
  require_known_operators(g, probed);
  h.probe = probe_some_size(g, probed);
}

// Takes pooling from sentence-transformers files in the model's folder. Returns the file; empty: there is none.
static std::string follow_sentence_modules(const std::string& model, HeadOptions& h) {
  const auto said = sentence_pooling(std::filesystem::path(model).parent_path().string());
  if (!said) return {};
  h.model_pooling = said->modes;
  h.normalize = said->normalize;
  return said->file;
}

static std::string embedding_line(const ModelSpec& model, const HeadChoice& choice, const std::string& output,
                                  const std::string& source, const std::string& said_by) {
  const std::string why = choice.pooling == "none"  ? ""
                          : model.pooling != "auto" ? " (`pooling`)"
                          : said_by.empty()         ? " (a guess: `pooling` chooses another)"
                                                    : cat(" (", said_by, ")");
  return cat("head: output '", printable(output), "' on '", source, "' (", choice.reason, "), pooling ", choice.pooling,
             choice.normalized ? ", normalized" : "", why, "; it has no weights");
}

// Returns the log line for a new head. labels: number of outputs; 0 if the data decide it.
static std::string new_head_line(const HeadChoice& choice, const HeadOptions& h, int64_t labels,
                                 const std::string& source) {
  return cat("head: ", h.kind, ", ",
             labels == 0 ? std::string("an output for every class") : cat(labels, labels == 1 ? " output" : " outputs"),
             " on '", source, "' (", choice.reason, "), pooling ", choice.pooling,
             h.kind == "segmentation" ? std::string() : cat(", dropout ", h.dropout),
             ", weights normal(0, 0.02) from `seed`");
}

SurgeryResult apply_embedding_surgery(const RunSpec& spec, Job job, Imported& model, const Log& log) {
  SurgeryResult out = apply_surgery(spec, job, model, 0, "embedding");
  for (const std::string& line : out.lines) log.note(line);
  return out;
}

std::vector<std::string> add_sentence_embedding(SourceGraph& g, const std::string& folder) {
  HeadOptions h;
  h.kind = "embedding";
  const std::string said_by = follow_sentence_modules((std::filesystem::path(folder) / "model.onnx").string(), h);
  if (said_by.empty()) return {};
  probe_for_head(g, h);
  const HeadChoice choice = choose_head(g, h);
  if (!choice.needed) return {};
  const std::vector<std::string> names = attach_head(g, choice, h);
  return {cat("output '", names.at(0), "': pooling ", choice.pooling, choice.normalized ? ", normalized" : "", " (",
              said_by, ")")};
}

int64_t classes_of_output(const SourceGraph& g, int output, Task task) {
  if (output < 0) return 0;
  const SourceValue& x = g.value(output);
  const TaskRule& rule = task_rule(task);
  const size_t rank = rule.output_rank, axis = rule.class_axis;
  Dims d;
  for (const Dim& dim : x.dims) d.push_back(dim.value);
  if (!x.rank_known || (d.size() == rank && d[axis] < 0)) {
    try {
      d = probe_some_size(g, {output})[static_cast<size_t>(output)];
    } catch (const Error&) {  // building the training graph will report the same error
      d.clear();
    }
  }
  return d.size() == rank && d[axis] > 0 ? d[axis] : 0;
}

// Returns whether an output is named as an embedding, whose elements are not classes.
static bool called_embedding(const std::string& name) {
  const std::string lower = lower_case(name);
  for (const char* part : {"embed", "hidden", "pool", "feature", "repr", "vector", "latent"}) {
    if (lower.find(part) != std::string::npos) return true;
  }
  return false;
}

int64_t kept_outputs(const ModelSpec& model, const SourceGraph& g, Task task, const std::vector<int64_t>& likely) {
  const bool always = model.head != "auto" && model.head != "none";
  if (always || !model.cut_at.empty() || !model.head_from.empty()) return 0;
  const auto counted = [&](int64_t n) { return std::find(likely.begin(), likely.end(), n) != likely.end(); };
  const int own = own_output(model, g);
  const int64_t n = classes_of_output(g, own, task);
  if (n > 0 && model.num_labels > 0) return n == model.num_labels ? n : 0;
  if (n > 0 && (counted(n) || !model.output.empty())) return n;
  if (n > 0 && find_classifier(g, own) && !called_embedding(g.value(own).name)) return n;
  for (const int v : g.outputs) {
    const int64_t other = v == own || !model.output.empty() ? 0 : classes_of_output(g, v, task);
    if (other > 0 && (model.num_labels > 0 ? other == model.num_labels : counted(other))) return other;
  }
  return 0;
}

SurgeryResult apply_surgery(const RunSpec& spec, Job job, Imported& model, int64_t classes, const std::string& head) {
  SourceGraph& g = model.graph;
  SurgeryResult out;
  out.head = head_kind(spec.model, head);
  int cut = -1;
  if (!spec.model.cut_at.empty()) cut = cut_graph(g, spec.model.cut_at, out.lines);
  // Without a number from settings or data, a span head has two outputs (start and end) and a regression head one.
  const int64_t asked = spec.model.num_labels;
  const int64_t labels = asked > 0                                  ? asked
                         : out.head == "span"                       ? 2
                         : out.head == "regression" && classes == 0 ? 1
                                                                    : classes;
  const bool always = spec.model.head != "auto" && out.head != "none";
  const bool embedding = out.head == "embedding";
  if (embedding && !spec.model.output.empty()) {
    out.outputs = {spec.model.output};
    return out;
  }
  // Try the model's own classifier first, unless a setting asks for a new head or names its source.
  const bool own = !always && cut < 0 && spec.model.head_from.empty() && out.head != "span" && !embedding;
  if (own && use_own(spec, g, out.head, labels, out)) return out;
  if (out.head == "none") return out;

  // Otherwise choose the tensor that a new head reads, and attach the head.
  HeadOptions h;
  h.kind = out.head;
  h.always = always || cut >= 0;
  h.from = !spec.model.head_from.empty() || cut < 0 ? spec.model.head_from : g.values[static_cast<size_t>(cut)].name;
  h.pooling = spec.model.pooling;
  std::string said_by;
  if (embedding && spec.model.pooling == "auto") said_by = follow_sentence_modules(spec.model.model, h);
  const bool look = job == Job::check && labels == 0;  // the number of outputs is not known, because the data decide it
  h.num_labels = look ? 2 : labels;
  h.dropout = *spec.model.dropout;
  h.seed = static_cast<uint64_t>(spec.device.seed);
  probe_for_head(g, h);
  const HeadChoice choice = choose_head(g, h);
  if (!choice.needed) {
    out.outputs = choice.outputs;
    out.lines.push_back(cat("head: the model's own, ", choice.reason));
    return out;
  }
  if (h.num_labels < 1 && !embedding) {
    fail(Exit::usage, "E_NUM_LABELS",
         cat("a new ", out.head, " head needs to know its number of outputs, and the data do not say"),
         "give it with `num_labels` N");
  }
  const std::string source = printable(g.shown(choice.source_value));
  // The head replaces an output that exists only because of the cut.
  const bool was_output = cut >= 0 && model_output(*model.doc, g.values[static_cast<size_t>(cut)].name);
  if (cut >= 0 && choice.source_value == cut && !was_output) std::erase(g.outputs, cut);
  out.outputs = attach_head(g, choice, h);
  if (embedding) {
    out.lines.push_back(embedding_line(spec.model, choice, out.outputs[0], source, said_by));
    return out;
  }
  out.lines.push_back(new_head_line(choice, h, look ? 0 : labels, source));
  return out;
}

Trainable make_trainable(const RunSpec& spec, Imported& model, const std::vector<int>& outputs, const Log& log) {
  SourceGraph& g = model.graph;
  Trainable t;
  std::vector<std::string> lines;
  if (*spec.model.dropout > 0) {
    DropoutOptions d;
    d.ratio = *spec.model.dropout;
    d.asked = spec.model.dropout.asked();
    d.outputs = outputs;
    t.dropout = insert_dropout(g, d, lines);
    std::map<std::string, int64_t> places;
    for (const DropoutSpot& spot : t.dropout)
      ++places[cat(spot.ratio, " on ", spot.kind == "file" ? "the file's own nodes" : spot.kind)];
    std::vector<std::string> words;
    for (const auto& [what, n] : places) words.push_back(cat(what, " (", n, ")"));
    if (!words.empty()) lines.push_back(cat("dropout: ", join(words, ", ")));
    for (const std::string& line : describe_dropout(t.dropout)) log.detail(line);
  }
  add_adapters(spec, model, t, lines, log);
  for (const std::string& line : lines) log.info(line);
  return t;
}

SurgeryPreview preview_surgery(const RunSpec& spec, Imported model) {
  SurgeryPreview p;
  if (const OutputEvidence look = unknown_task(spec, model.graph, true)) {
    p.lines.push_back(cat("a loss is asked for: ", describe_unknown_task(look)));
    return p;
  }
  try {
    const SurgeryResult shaped = apply_surgery(spec, Job::check, model, 0, "classification");
    p.lines = shaped.lines;
    DropoutOptions d;
    d.ratio = *spec.model.dropout;
    d.asked = spec.model.dropout.asked();
    for (const std::string& name : shaped.outputs) d.outputs.push_back(model.graph.find(name));
    if (d.outputs.empty()) d.outputs = model.graph.outputs;
    if (d.ratio > 0) p.dropout = insert_dropout(model.graph, d, p.lines);
    for (std::string& line : describe_dropout(p.dropout)) p.lines.push_back(std::move(line));
  } catch (const Error& e) {
    if (e.exit() == Exit::usage) throw;
    p.lines.push_back(cat(e.id(), ": ", e.fact()));
  }
  return p;
}

}  // namespace amp
