// Names and shapes of a model's inputs and outputs for datasets, and the note about spellings of labels.
#include "run/data/data_needs.h"

#include "base/text.h"

namespace amp {

std::vector<InputSpec> input_specs(const SourceGraph& g, const std::vector<int>& inputs) {
  std::vector<InputSpec> specs;
  for (const int v : inputs) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    InputSpec s;
    s.name = x.name;
    s.dtype = x.dtype;
    if (x.rank_known) {
      Dims d;
      for (const Dim& dim : x.dims) d.push_back(dim.value);
      s.dims = d;
    }
    specs.push_back(std::move(s));
  }
  return specs;
}

std::vector<InputSpec> input_specs(const SourceGraph& graph, const DataNeeds& needs) {
  std::vector<InputSpec> specs = input_specs(graph, needs.inputs);
  specs.insert(specs.end(), needs.more_inputs.begin(), needs.more_inputs.end());
  return specs;
}

std::vector<int> values_of(const SourceGraph& g, const Losses& losses) {
  std::vector<int> out;
  for (const std::string& name : losses.outputs()) {
    if (g.find(name) >= 0) out.push_back(g.find(name));
  }
  return out;
}

void log_matches(const std::vector<std::string>& labels, const std::string& file, const ClassNames& classes,
                 const Log& log) {
  const std::string matches = describe_matches(labels, classes);
  if (!matches.empty()) log.note(cat(printable(file), ": ", matches));
}

}  // namespace amp
