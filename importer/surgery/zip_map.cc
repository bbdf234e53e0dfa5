#include "importer/surgery/zip_map.h"

#include <algorithm>

#include "base/cat.h"
#include "base/text.h"

namespace amp {

namespace {

int64_t classes_of(const SourceNode& zip_map) {
  const auto& items = zip_map.attrs.items();
  if (const auto it = items.find("classlabels_strings"); it != items.end()) {
    const auto* const names = std::get_if<std::vector<std::string>>(&it->second);
    return names ? std::ssize(*names) : -1;
  }
  const std::vector<int64_t> numbers = zip_map.attrs.ints("classlabels_int64s");
  return numbers.empty() ? -1 : std::ssize(numbers);
}

// Declares the type of a ZipMap's input: float32 rows with one number per class.
void declare(SourceValue& v, int64_t classes) {
  if (!v.dtype_known) v.dtype = DType::f32;
  v.dtype_known = true;
  if (!v.rank_known) v.dims = {Dim{}, Dim{classes, ""}};
  v.rank_known = true;
}

}  // namespace

void read_before_zip_maps(Built& built) {
  SourceGraph& g = built.graph;
  for (int& output : g.outputs) {
    const int producer = g.value(output).producer;
    if (producer < 0) continue;
    const SourceNode& n = g.nodes[static_cast<size_t>(producer)];
    if (n.domain != "ai.onnx.ml" || n.op != "ZipMap" || n.inputs.empty() || n.inputs[0] < 0) continue;
    if (std::find(g.outputs.begin(), g.outputs.end(), n.inputs[0]) != g.outputs.end()) continue;
    built.notes.push_back(cat("output '", printable(g.value(output).name),
                              "' is a list of dictionaries (ZipMap): the tensor '",
                              printable(g.value(n.inputs[0]).name), "' before it is read instead"));
    declare(g.values[static_cast<size_t>(n.inputs[0])], classes_of(n));
    output = n.inputs[0];
  }
}

}  // namespace amp
