// write_hessian_product() of evaluate.h: the Hessian-vector product of one batch's loss (Pearlmutter 1994), computed by
// differentiating the training graph again (Session::launch_hessian). Tied parameters share one tensor of v.
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/npz.h"
#include "base/text.h"
#include "run/data/data.h"
#include "run/evaluate/evaluate.h"
#include "run/evaluate/gradient_tensors.h"
#include "run/model/fixed_shapes.h"
#include "run/model/operator_advice.h"
#include "run/prepare/common.h"
#include "run/prepare/config.h"
#include "run/prepare/losses.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/compile/host_terms.h"

namespace amp {

namespace {

void require_wide(const PrecisionSpec& precision) {
  if (*precision.use_fp16 || *precision.use_bf16 || !precision.precision_plan.empty() ||
      is_low(dtype_from_name(precision.dtype)))
    fail(Exit::usage, "E_USAGE", "second derivatives are computed in fp32 or fp64, without a precision plan",
         "`dtype` fp32 or `dtype` fp64");
}

// Reads v from a file: tensors under the parameters' names, stored by slot.
class Direction {
 public:
  Direction(const Session& session, const std::string& path) : session_(session), path_(path) {
    by_slot_.resize(session.table().size());
    for (const NamedTensor& t : read_tensor_file(path)) take(t);
  }

  // Returns v by slot. wanted: the slots whose parameters have a gradient. The file must hold a tensor for each of
  // them.
  std::vector<HostTensor> over(const std::set<int>& wanted) {
    std::vector<std::string> missing;
    for (const int slot : wanted) {
      if (!given_.count(slot)) missing.push_back(name(slot));
    }
    if (!missing.empty()) {
      const size_t n = missing.size();
      if (n > 8) missing.resize(8);
      fail(Exit::data, "E_HVP_NAME",
           cat(quoted(path_), " lacks ", n, " of ", wanted.size(), " parameters: ", printable(join(missing, ", ")),
               n > 8 ? ", .." : ""),
           "v needs a tensor for every parameter that has a gradient: those that `grad` writes without `hvp`");
    }
    for (const int slot : given_) {
      if (!wanted.count(slot))
        fail(Exit::data, "E_HVP_NAME",
             cat(quoted(path_), ": '", printable(name(slot)), "' is frozen, or no gradient reaches it"),
             "leave it out, or `trainable` takes it in");
    }
    return by_slot_;
  }

 private:
  static std::string quoted(const std::string& path) { return "'" + printable(path) + "'"; }
  std::string name(int slot) const { return session_.layout().chunks()[static_cast<size_t>(slot)].name; }

  void take(const NamedTensor& t) {
    const SourceGraph& g = session_.source();
    const int i = g.find(t.name);
    if (i < 0 || g.values[static_cast<size_t>(i)].kind != SourceKind::parameter ||
        g.values[static_cast<size_t>(i)].tied_axis >= 0)
      fail(Exit::data, "E_HVP_NAME", cat(quoted(path_), ": the model has no parameter '", printable(t.name), "'"),
           "tensors are found by the parameters' ONNX names, as `grad` writes them without `hvp`");
    const SourceValue& v = g.values[static_cast<size_t>(i)];
    if (t.tensor.dims() != v.data.dims() || !is_float(t.tensor.dtype()))
      fail(Exit::data, "E_HVP_SHAPE",
           cat(quoted(path_), ": '", printable(t.name), "' is ", name_of(t.tensor.dtype()), ' ',
               to_string(t.tensor.dims()), ", the parameter ", to_string(v.data.dims())),
           "v has the shapes of the gradients that `grad` writes without `hvp`");
    const int slot = session_.table().slot_of[static_cast<size_t>(i)];
    const int master = session_.table().source_value[static_cast<size_t>(slot)];
    const HostTensor part = v.tied_transposed ? transposed(t.tensor.cast(session_.float_type()))
                                              : t.tensor.reshaped(g.values[static_cast<size_t>(master)].data.dims());
    HostTensor& have = by_slot_[static_cast<size_t>(slot)];
    if (!given_.insert(slot).second && have.to_doubles() != part.to_doubles())
      fail(Exit::data, "E_HVP_NAME",
           cat(quoted(path_), ": '", printable(t.name), "' differs from another copy of the same tied parameter"),
           "one of them is enough");
    have = part;
  }

  const Session& session_;
  const std::string path_;
  std::vector<HostTensor> by_slot_;
  std::set<int> given_;
};

std::set<int> with_gradient(const Session& session, const Losses& losses, const Tensors& batch) {
  const std::shared_ptr<const Graph> graph = session.train_graph(losses, batch);
  std::set<int> out;
  for (const auto& p : graph->param_grads) out.insert(p.slot);
  return out;
}

double dot(const Session& session, const std::vector<HostTensor>& v, const std::set<int>& slots) {
  double sum = 0;
  for (const int slot : slots) {
    const std::vector<double> x = v[static_cast<size_t>(slot)].to_doubles(), y = session.grad(slot).to_doubles();
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  }
  return sum;
}

void require_finite_product(const Session& session) {
  const int slot = first_bad_slot(session);
  if (slot >= 0)
    fail(Exit::numerical, "E_GRADIENT_NONFINITE",
         cat("H v of '", printable(session.layout().chunks()[static_cast<size_t>(slot)].name),
             "' is not finite; nothing was written"),
         "try `dtype` fp64: if H v is finite then, it overflowed");
}

}  // namespace

HessianReport write_hessian_product(const RunSpec& spec, const std::string& inputs, const std::string& direction,
                                    const std::string& out, const std::string& dump_graph, const Log& log) {
  set_threads(spec.device, log);
  require_tensor_file(out);
  require_wide(spec.precision);
  requested_losses(spec.objective);
  Imported model = open_model(spec, Job::gradients, log);
  SourceGraph& g = model.graph;
  const Tensors batch = read_batch(inputs, model.graph, log);
  Losses losses = choose_losses(spec.model, spec.objective, g);
  log_losses(losses, bypass_output_activations(g, losses), log);
  require_known_operators(g, values_of(g, losses));
  fix_shapes(g, values_of(g, losses));
  tie_rows(spec.model, g, values_of(g, losses), log);
  Session session(g, session_options(spec, Job::gradients, choose_plan(spec.precision, Job::gradients, g, log), log));
  LossAccumulator window(losses);
  window.count(batch);
  const std::set<int> wanted = with_gradient(session, losses, batch);
  const std::vector<HostTensor> v = Direction(session, direction).over(wanted);

  HostTerms terms(session.device(), window.seeds(1));
  std::shared_ptr<const Graph> graph;
  const Instrumentation look{[&](Program& p) {
    graph = p.graph();
    p.run();
  }};
  session.stage_statistics();
  session.launch_hessian(losses, batch, v, terms, &look);
  window.add(terms.sums());
  require_finite_product(session);
  const std::vector<NamedTensor> tensors = gradient_tensors(session);
  write_tensor_file(out, tensors);
  if (!dump_graph.empty()) {
    FileWriter text(dump_graph);
    text.write(graph->dump());
    text.commit();
  }
  return {window.loss(), tensors.size(), dot(session, v, wanted)};
}

}  // namespace amp
