#include "trainer/loop/teacher.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {
std::string matching_output(const SourceGraph& g, const std::string& name) {
  std::vector<std::string> floating;
  for (const int o : g.outputs) {
    const SourceValue& v = g.values[static_cast<size_t>(o)];
    if (v.name == name) return name;
    if (v.kind == SourceKind::temp && (is_float(v.dtype) || !v.dtype_known)) floating.push_back(v.name);
  }
  if (floating.size() == 1) return floating[0];
  fail(Exit::usage, "E_TEACHER",
       cat("the teacher has no output '", printable(name), "'; it has: ", join(floating, ", ")),
       "distill an output that both have (`loss` distill,output=NAME)");
}
}  // namespace

Teacher::Teacher(const SourceGraph& graph, const SessionOptions& options, const Losses& losses)
    : graph_(graph), session_(graph, options) {
  for (const LossSpec& s : losses.parts) {
    if (!loss_rule(s.kind).teacher) continue;
    for (const std::string& o : s.outputs) {
      if (std::find(students_.begin(), students_.end(), o) != students_.end()) continue;
      students_.push_back(o);
      names_.push_back(matching_output(graph, o));
      values_.push_back(graph.find(names_.back()));
    }
  }
}

std::vector<int> Teacher::inputs() const { return needed_inputs(graph_, values_); }

void Teacher::add_outputs(Tensors& batch) {
  Tensors feeds;
  for (const int v : inputs()) {
    const SourceValue& x = graph_.values[static_cast<size_t>(v)];
    const auto it = batch.find(x.name);
    if (it == batch.end())
      fail(Exit::usage, "E_TEACHER", cat("the teacher takes an input '", printable(x.name), "' that the data has not"),
           "choose a teacher with the model's inputs, or add the tensor to the data");
    feeds[x.name] = it->second;
  }
  const std::lock_guard lock(mutex_);
  const Tensors out = session_.forward(values_, feeds);
  for (size_t i = 0; i < values_.size(); ++i)
    batch[teacher_name(students_[i])] = out.at(graph_.values[static_cast<size_t>(values_[i])].name);
}

}  // namespace amp
