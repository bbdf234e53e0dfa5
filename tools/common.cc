#include "tools/common.h"

#include <omp.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "base/limits.h"
#include "base/npz.h"
#include "base/text.h"
#include "importer/describe.h"
#include "tools/choose_device.h"

namespace amp {

static Limits limits_of(const cli::Options& opts) {
  Limits l;
  l.graph_nodes = opts.integer("max_graph_nodes");
  l.activation_bytes = opts.integer("max_activation_bytes");
  l.constant_bytes = opts.integer("max_constant_bytes");
  return l;
}

Imported open_model(const cli::Options& opts) {
  set_limits(limits_of(opts));
  ImportOptions o;
  if (opts.verb == cli::Verb::train || opts.verb == cli::Verb::grad || opts.verb == cli::Verb::check ||
      opts.verb == cli::Verb::plan) {
    o.train_quantized = opts.flag("train_quantized");
    o.tie_weights_auto = opts.str("tie_weights") == "auto";
    o.freeze = opts.list("freeze");
    o.trainable = opts.list("trainable");
    o.batchnorm_train =
        (opts.verb == cli::Verb::train || opts.verb == cli::Verb::grad) && opts.str("batchnorm") == "train";
    o.freeze_layers = opts.integer("freeze_layers");
  }
  Imported m = import_model(opts.str("model"), o);
  for (const std::string& note : m.notes) std::cerr << "note: " << note << '\n';
  if (opts.verb == cli::Verb::train) {
    size_t left = 0;
    const std::string flags = flags_of_doubt(m.graph, m.verdicts, 12, left);
    if (!flags.empty()) {
      std::cerr << "note: unsure whether these tensors are weights (`check` shows the evidence); to turn the verdict: "
                << printable(flags) << (left ? cat(" (and ", left, " more)") : std::string()) << '\n';
    }
  }
  return m;
}

Tensors read_batch(const std::string& path) {
  Tensors b;
  for (NamedTensor& t : read_tensor_file(path)) b[t.name] = std::move(t.tensor);
  return b;
}

PrecisionPlan choose_plan(const cli::Options& opts, const SourceGraph& g) {
  DType low = DType::f32;
  if (opts.flag("use_fp16")) low = DType::f16;
  if (opts.flag("use_bf16")) low = DType::bf16;
  if (opts.verb == cli::Verb::grad || opts.verb == cli::Verb::predict || opts.verb == cli::Verb::eval) {
    const DType asked = dtype_from_name(opts.str("dtype"));
    if (is_low(asked)) low = asked;
  }
  if (low == DType::f32 && !opts.has("precision_plan")) return decide(g, preset("O0"), DType::f32);
  if (!opts.has("precision_plan") && opts.str("amp_level") == "auto") {
    fail(Exit::usage, "E_AMP_AUTO", "--amp_level auto measures on training data, which this verb does not read",
         "write the plan with `plan MODEL --calibrate FILE --out plan.json` and give it as --precision_plan plan.json");
  }
  const OpList list = load_op_list(opts.has("precision_plan") ? opts.str("precision_plan") : opts.str("amp_level"));
  if (low == DType::f32 && list.dtype && !opts.was_set("use_fp16") && !opts.was_set("use_bf16")) low = *list.dtype;
  if (low == DType::f32 && !list.dtype) {
    if (opts.verb == cli::Verb::plan) {
      low = DType::f16;  // explaining an all-fp32 plan helps nobody
    } else {
      std::cerr << "warning: " << printable(list.name)
                << " names no dtype and neither --use_fp16 nor --use_bf16 is given: all stays fp32\n";
    }
  }
  PrecisionPlan plan = decide(g, list, low);
  for (const std::string& w : plan.warnings) std::cerr << "warning: " << w << '\n';
  return plan;
}

SessionOptions session_options(const cli::Options& opts, const PrecisionPlan& plan) {
  SessionOptions o;
  if ((opts.verb == cli::Verb::grad || opts.verb == cli::Verb::predict || opts.verb == cli::Verb::eval) &&
      opts.str("dtype") == "fp64") {
    o.float_type = DType::f64;
  }
  if (opts.verb == cli::Verb::train || opts.verb == cli::Verb::grad || opts.verb == cli::Verb::predict ||
      opts.verb == cli::Verb::eval)
    o.device = &choose_device(opts);
  if (plan.any_low() && o.float_type == DType::f32) {
    o.low = plan.low;
    for (const Decision& d : plan.nodes) o.compute.push_back(dtype_of(d.compute));
  }
  if (opts.verb == cli::Verb::train || opts.verb == cli::Verb::grad)
    o.batchnorm_train = opts.str("batchnorm") == "train";
  o.fusion = opts.flag("fusion");
  if (opts.verb == cli::Verb::train || opts.verb == cli::Verb::grad || opts.verb == cli::Verb::eval)
    o.remove_padding = opts.flag("remove_padding");
  o.batchnorm_as_written = opts.verb == cli::Verb::predict;
  if (opts.verb == cli::Verb::train) {
    o.decay_exclude = opts.str("decay_exclude") == "none" ? DecayExclude::none : DecayExclude::bias_and_norm;
    o.seed = static_cast<uint64_t>(opts.integer("seed"));
  }
  return o;
}

namespace {
// Parameters from which a node can be reached, by shown name.
std::set<std::string> blocked_parameters(const SourceGraph& g, int node) {
  std::set<std::string> names;
  std::vector<bool> seen(g.values.size(), false);
  std::vector<int> stack(g.nodes[static_cast<size_t>(node)].inputs);
  while (!stack.empty()) {
    const int v = stack.back();
    stack.pop_back();
    if (v < 0 || seen[static_cast<size_t>(v)]) continue;
    seen[static_cast<size_t>(v)] = true;
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    if (x.kind == SourceKind::parameter && x.trainable) names.insert(g.shown(v));
    if (x.producer >= 0)
      stack.insert(stack.end(), g.nodes[static_cast<size_t>(x.producer)].inputs.begin(),
                   g.nodes[static_cast<size_t>(x.producer)].inputs.end());
  }
  return names;
}
}  // namespace

void require_known_operators(const SourceGraph& g, const std::vector<int>& outputs) {
  const std::vector<int> unknown = unknown_operators(g, outputs);
  if (unknown.empty()) return;
  std::vector<std::string> lines;
  for (const int n : unknown) {
    const auto blocked = blocked_parameters(g, n);
    std::string line = g.describe_node(n);
    if (!blocked.empty())
      line +=
          cat(" blocks ", blocked.size(), " parameters (", *blocked.begin(), blocked.size() > 1 ? ", ..." : "", ")");
    lines.push_back(line);
    if (lines.size() == 20) {
      lines.push_back(cat("... and ", unknown.size() - 20, " more"));
      break;
    }
  }
  fail(Exit::unsupported, "E_OP_UNSUPPORTED",
       cat(unknown.size(), " nodes have an operator that is not supported:\n  ", join(lines, "\n  ")),
       "`check` lists every node; a part that the loss does not need can be left out by --output");
}

void set_threads(const cli::Options& opts) {
  if (opts.integer("threads") > 0) omp_set_num_threads(static_cast<int>(opts.integer("threads")));
}

}  // namespace amp
