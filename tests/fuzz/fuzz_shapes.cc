// Imports an ONNX file, then lowers every node and infers its shapes with small sizes.
#include "backend/interpreter.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "graph/probe.h"
#include "importer/read/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  return fuzz::accepts_or_refuses([&] {
    const Imported model = import_model(fuzz::memory_folder().put("model.onnx", fuzz::text(data, size)));
    const SourceGraph& g = model.graph;
    if (!unknown_operators(g, g.outputs).empty()) return;
    BindOptions o;
    o.outputs = g.outputs;
    for (const int v : needed_inputs(g, g.outputs)) {
      const SourceValue& x = g.values[static_cast<size_t>(v)];
      Dims& dims = o.input_dims[x.name];
      for (const Dim& d : x.dims) dims.push_back(d.value > 0 && d.value < 64 ? d.value : 2);
    }
    probe_shapes(g, ParamTable(g), o, cpu_evaluator());
  });
}
