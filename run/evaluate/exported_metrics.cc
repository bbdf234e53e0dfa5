#include "run/evaluate/exported_metrics.h"

#include <vector>

#include "importer/read/import.h"
#include "precision/float_types.h"
#include "run/data/data.h"
#include "run/model/adapters.h"
#include "run/model/decoder_folder.h"
#include "run/model/fixed_shapes.h"
#include "run/prepare/losses.h"

namespace amp {

namespace {
// Returns for each node the type of its result in the file: the 16-bit type, or fp32 for all other types. Returns an
// empty list if no node has a 16-bit type.
std::vector<DType> written_types(const SourceGraph& g, DType& low) {
  const std::vector<DType> values = value_types(g);
  std::vector<DType> types(g.nodes.size(), DType::f32);
  bool any = false;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int v : g.nodes[n].outputs) {
      if (v < 0 || !is_low(values[static_cast<size_t>(v)])) continue;
      types[n] = low = values[static_cast<size_t>(v)];
      any = true;
    }
  }
  return any ? types : std::vector<DType>();
}
}  // namespace

Metrics evaluate_export(const std::string& path, const std::string& adapter, Objective objective, const Dataset& data,
                        int64_t batch_size, const SessionOptions& options) {
  std::vector<std::string> fed;
  const int64_t first = 0;
  for (const auto& [name, tensor] : data.batch({&first, 1}).inputs) fed.push_back(name);
  Imported model = import_fed(path, fed);
  apply_adapter(adapter, model.graph, Log());
  // `reads` names values of the training graph, which the exported file may not have.
  for (LossSpec& s : objective.losses.parts) s.reads.clear();
  bypass_output_activations(model.graph, objective.losses);
  fix_shapes(model.graph, values_of(model.graph, objective.losses));
  SessionOptions o;
  o.device = options.device;
  o.fusion = options.fusion;
  o.remove_padding = options.remove_padding;
  o.compute = written_types(model.graph, o.low);
  Session session(model.graph, o);
  release_parameters(model);
  return evaluate(session, objective, data, batch_size);
}

}  // namespace amp
