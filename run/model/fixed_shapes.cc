// Fixed batch sizes and lengths of a file. ShapeFixing finds them by shape inference (graph/fixed_rows.h) and frees
// batch sizes that only Reshapes fix. Freeing is verified by computing: the file's own graph in several batches and the
// freed graph in one larger batch must give the same outputs. Graphs that stay fixed are padded by bind().

#include "run/model/fixed_shapes.h"

#include <algorithm>
#include <cmath>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/folded_rows.h"
#include "run/data/synthetic_data.h"
#include "run/spec/spec.h"
#include "trainer/compile/session.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

// Returns the largest number of samples per batch that the graph can take; 0 if any number is possible. Rows that are
// left are padded.
int64_t fixed_samples(const SourceGraph& g, int64_t rows_per_sample) {
  const int64_t rows = fixed_rows(g);
  if (rows > 0 && rows < rows_per_sample)
    fail(Exit::unsupported, "E_BATCH_ROWS",
         cat("the model takes batches of ", rows, rows == 1 ? " row" : " rows", ", and a sample has ", rows_per_sample,
             " of them"),
         "re-export the model with a free batch dimension");
  return rows / rows_per_sample;
}

// Returns whether the user gave a setting. Settings that the command line derives (eval_batch_size) do not count.
bool said(const RunSpec& spec, const std::string& setting) {
  const auto source = spec.sources.find(setting);
  return source != spec.sources.end() && source->second != "derived";
}

[[noreturn]] void refuse_size(const char* flag, int64_t asked, int64_t fits) {
  std::string hint = cat("give ", flag, " ", fits);
  if (flag == std::string("`batch_size`"))
    hint += cat(" `gradient_accumulation_steps` ", (asked + fits - 1) / fits, ": a step of ",
                (asked + fits - 1) / fits * fits, " samples");
  fail(Exit::usage, "E_BATCH_SIZE", cat("the model takes batches of ", fits, ", ", flag, " is ", asked),
       hint + "; or re-export the model with a free batch dimension");
}

// Returns random inputs with shape.rows rows, even if the graph declares a different number.
Tensors random_inputs(const SourceGraph& g, const std::vector<int>& outputs, const SyntheticShape& shape,
                      uint64_t seed) {
  SourceGraph open = g;
  for (const int v : open.inputs) {
    std::vector<Dim>& d = open.values[static_cast<size_t>(v)].dims;
    if (!is_fixed_whole(g.value(v)) && !d.empty() && d[0].value == fixed_rows(g)) d[0] = {};
  }
  Tensors out = synthetic_inputs(open, outputs, shape, seed);
  for (const int v : g.inputs) {
    if (is_fixed_whole(g.value(v))) out.erase(g.value(v).name);
  }
  return out;
}

HostTensor rows_of(const HostTensor& t, int64_t from, int64_t to) {
  Dims dims = t.dims();
  const int64_t bytes = dims[0] > 0 ? t.bytes() / dims[0] : 0;
  dims[0] = to - from;
  return HostTensor(t.dtype(), dims, std::make_shared<HostTensor>(t),
                    static_cast<const char*>(t.data()) + from * bytes);
}

// Computes the outputs in parts of `at_once` rows and concatenates them. Throws E_BATCH_SIZE if the first dimension of
// an output is not rows.
Tensors in_parts(const SourceGraph& g, const std::vector<int>& outputs, const Tensors& batch, int64_t rows,
                 int64_t at_once) {
  Session session(g, {});
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, Dims> dims;
  for (int64_t from = 0; from < rows; from += at_once) {
    const int64_t to = std::min(rows, from + at_once);
    Tensors part = batch;
    for (auto& [name, t] : part) {
      if (t.rank() > 0 && t.dims()[0] == rows) t = rows_of(t, from, to);
    }
    for (const auto& [name, t] : session.forward(outputs, part)) {
      if (t.rank() == 0 || t.dims()[0] % (to - from) != 0)
        fail(Exit::usage, "E_BATCH_SIZE", cat("output '", printable(name), "' does not begin with rows"),
             "give batches of the size that the file takes");
      const std::vector<double> some = t.to_doubles();
      values[name].insert(values[name].end(), some.begin(), some.end());
      if (dims[name].empty()) dims[name] = t.dims();
      if (from > 0) dims[name][0] += t.dims()[0];
    }
  }
  Tensors out;
  for (const auto& [name, v] : values) out[name] = HostTensor::of<double>(dims[name], v);
  return out;
}

// Returns whether the outputs are equal up to rounding. Differences may be 1e-4 of the largest value, because matrix
// products of different sizes add in different orders. They must also be at most 1e-2 of the spread between rows,
// because an error that mixes rows causes differences of about that spread. Outputs that are equal in all rows (a new
// head of zeros) prove nothing, and count as unequal.
bool same(const Tensors& a, const Tensors& b) {
  for (const auto& [name, x] : a) {
    const HostTensor& y = b.at(name);
    if (x.dims() != y.dims()) return false;
    const std::vector<double> p = x.to_doubles(), q = y.to_doubles();
    const size_t row = q.size() / static_cast<size_t>(y.dims()[0]);
    double largest = 0, worst = 0, spread = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (!std::isfinite(p[i]) || !std::isfinite(q[i])) return false;
      largest = std::max(largest, std::abs(q[i]));
      worst = std::max(worst, std::abs(p[i] - q[i]));
      spread = std::max(spread, std::abs(q[i] - q[i % row]));
    }
    if (worst > 1e-4 * largest || worst > 1e-2 * spread || spread < 1e-5 * largest) return false;
  }
  return true;
}

// Returns the first node that fails when the graph is bound (bind.h) for batches of fixed.rows + 1 rows; empty if all
// nodes can be bound.
std::string holder_of(const SourceGraph& g, const std::vector<int>& outputs, const FixedShapes& fixed) {
  SourceGraph open = g;
  BindOptions o;
  o.outputs = outputs;
  for (const int v : fed_inputs(g, needed_inputs(g, outputs))) {
    std::vector<Dim>& d = open.values[static_cast<size_t>(v)].dims;
    if (!d.empty() && d[0].value == fixed.rows) d[0] = {};
    Dims dims;
    for (const Dim& x : d)
      dims.push_back(x.value >= 0 ? x.value : dims.empty() ? fixed.rows + 1 : std::max<int64_t>(fixed.length, 8));
    o.input_dims[g.value(v).name] = dims;
  }
  try {
    probe_shapes(open, ParamTable(open), o, cpu_evaluator());
  } catch (const Error& e) {
    for (const std::string& place : e.where()) {
      if (place.starts_with("at node ")) return place.substr(3);
    }
  }
  return {};
}

}  // namespace

ShapeFixing::ShapeFixing(SourceGraph& graph) : graph_(graph) {
  for (const int v : graph.inputs) declared_.push_back(graph.value(v).dims);
}

const ModelShapes& ShapeFixing::fix(const std::vector<int>& outputs) {
  for (size_t i = 0; i < declared_.size(); ++i)
    graph_.values[static_cast<size_t>(graph_.inputs[i])].dims = declared_[i];
  looked_ = unknown_operators(graph_, outputs).empty();
  static_cast<FixedShapes&>(found_) = find_fixed_shapes(graph_, outputs, cpu_evaluator());
  set_fixed_rows(graph_, found_.rows);
  if (found_.length > 0) set_fixed_length(graph_, found_.length);
  if (found_.rows > 0 && found_.freed_rows == 0) free(outputs);
  found_.holder = found_.rows > 0 ? holder_of(graph_, outputs, found_) : std::string();
  return found_;
}

// Treats the leading number in the shapes of Reshapes as the batch size and frees it. This change is kept only if two
// computations give the same outputs: the freed graph for all rows at once, and the file's own graph for batches of
// found_.rows rows.
void ShapeFixing::free(const std::vector<int>& outputs) {
  // Limits are needed because a forward pass of larger models takes too long.
  constexpr int64_t kMostRows = 64, kMostElements = int64_t{1} << 27;
  const int64_t fixed = found_.rows, rows = fixed + std::max<int64_t>(2, fixed / 2);
  int64_t elements = 0;
  for (const SourceValue& v : graph_.values) elements += v.data.numel();
  if (rows > kMostRows || elements > kMostElements) return;
  const auto declared = [&] {
    std::vector<std::vector<Dim>> dims;
    for (const int v : graph_.inputs) dims.push_back(graph_.value(v).dims);
    return dims;
  };
  const auto declare = [&](const std::vector<std::vector<Dim>>& dims) {
    for (size_t i = 0; i < dims.size(); ++i) graph_.values[static_cast<size_t>(graph_.inputs[i])].dims = dims[i];
  };
  const std::vector<std::vector<Dim>> held = declared();
  try {
    const Tensors batch = random_inputs(graph_, outputs, {rows, found_.length > 0 ? found_.length : 8}, 1);
    const Tensors parts = in_parts(graph_, outputs, batch, rows, fixed);
    if (set_free_rows(graph_, outputs, true) == 0) return;
    declare(declared_);
    const FixedShapes now = find_fixed_shapes(graph_, outputs, cpu_evaluator());
    if (now.rows == 0 && same(Session(graph_, {}).forward(outputs, batch), parts)) {
      found_.rows = 0;
      found_.freed_rows = fixed;
      if (found_.length > 0) set_fixed_length(graph_, found_.length);
      return;
    }
  } catch (const Error&) {  // the freed graph cannot be computed: restore the fixed one below
  }
  set_free_rows(graph_, outputs, false);
  declare(held);
}

ModelShapes fix_shapes(SourceGraph& graph, const std::vector<int>& outputs) { return ShapeFixing(graph).fix(outputs); }

void tie_rows(const ModelSpec& model, SourceGraph& g, const std::vector<int>& outputs, const Log& log) {
  if (model.tie_weights != "auto" || !unknown_operators(g, outputs).empty()) return;
  const std::vector<std::string> names = tie_folded_rows(g, find_folded_rows(g, outputs, cpu_evaluator()));
  if (names.empty()) return;
  log.note(cat(names.size(), names.size() == 1 ? " parameter is" : " parameters are", " stored ", fixed_rows(g),
               " times over, once for each row of a batch: ", printable(join(names, ", ")),
               "; the copies train as one (`tie_weights` none: each copy by itself)"));
}

void log_fixed_shapes(const ModelShapes& f, const Log& log) {
  if (f.freed_rows > 0)
    log.note(cat("this file takes batches of ", f.freed_rows, ", by numbers in Reshapes alone: here it takes any; ",
                 "the exported file keeps them"));
  if (f.rows > 0)
    log.note(cat("this file takes batches of ", f.rows, ": ", f.holder.empty() ? "its graph" : printable(f.holder),
                 " holds that number; shorter batches are padded, ", "and what is padded counts for nothing"));
  if (f.length > 0) log.note(cat("this file takes inputs of length ", f.length, ": its graph holds that number"));
}

void fit_batch_size(RunSpec& spec, const SourceGraph& g, int64_t rows_per_sample, const Log& log) {
  if (fixed_rows(g) == 0) return;
  const int64_t fits = fixed_samples(g, rows_per_sample);
  if (spec.data.text.in_tokens)
    fail(Exit::usage, "E_BATCH_SIZE",
         cat("the model takes batches of ", fits, " samples, `in_tokens` makes batches of any number"),
         "leave `in_tokens` out");
  const RunSpec initial;
  const bool asked = said(spec, "batch_size") || spec.schedule.batch_size != initial.schedule.batch_size;
  const bool accumulates = said(spec, "gradient_accumulation_steps") ||
                           spec.schedule.gradient_accumulation_steps != initial.schedule.gradient_accumulation_steps;
  if (asked && spec.schedule.batch_size > fits) refuse_size("`batch_size`", spec.schedule.batch_size, fits);
  if (!asked) {
    // Accumulates micro-batches, so that a step keeps the default number of samples.
    if (!accumulates && !spec.schedule.gradient_cache)
      spec.schedule.gradient_accumulation_steps = std::max<int64_t>(1, spec.schedule.batch_size / fits);
    spec.schedule.batch_size = fits;
    const std::string steps = spec.schedule.gradient_accumulation_steps > 1
                                  ? cat(" `gradient_accumulation_steps` ", spec.schedule.gradient_accumulation_steps)
                                  : std::string();
    log.note(cat("`batch_size` ", fits, steps, ": by the model's batches"));
  }
  fit_evaluation_rows(spec, g, rows_per_sample);
}

void fit_evaluation_rows(RunSpec& spec, const SourceGraph& g, int64_t rows_per_sample) {
  if (fixed_rows(g) == 0) return;
  const int64_t fits = fixed_samples(g, rows_per_sample);
  if (spec.evaluation.eval_batch_size > fits && said(spec, "eval_batch_size"))
    refuse_size("`eval_batch_size`", spec.evaluation.eval_batch_size, fits);
  if (spec.evaluation_rows() > fits) spec.evaluation.eval_batch_size = fits;
}

bool padding_counts(const SourceGraph& g, const Losses& losses, bool batch_statistics) {
  const auto& parts = losses.parts;
  const bool inside = std::any_of(parts.begin(), parts.end(), [](const LossSpec& s) {
    return loss_rule(s.kind).own_output || loss_rule(s.kind).of_gradient;
  });
  const bool norms =
      std::any_of(g.nodes.begin(), g.nodes.end(), [](const SourceNode& n) { return n.op == "BatchNormalization"; });
  return fixed_rows(g) > 0 && (inside || (batch_statistics && norms));
}

}  // namespace amp
