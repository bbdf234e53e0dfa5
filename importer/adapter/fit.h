// Applies an adapter from a file to a model: chooses the maps that add_lora() (importer/surgery/lora.h) adapts, and
// sets the values of A, B and DoRA's magnitudes.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/adapter/adapter_file.h"
#include "importer/surgery/lora.h"

namespace amp {

// One adapter of the model, with its values from the file.
struct FittedModule {
  std::string name;      // equals LoraAdapter::name
  std::string module;    // name of the module in the file
  HostTensor a, b;       // fp32: A [in, r] and B [r, n], where n is the number of outputs of the map or part
  HostTensor magnitude;  // fp32 [n], or null
  double alpha = 0;
};

class FittedAdapter {
 public:
  // Finds the map of each module (importer/adapter/module_names.h). The graph must not have adapters yet. Throws
  // E_ADAPTER_FIT (Exit::data) if the adapter belongs to another model.
  FittedAdapter(const SourceGraph& graph, const LoadedAdapter& adapter);

  // Sets the options that the file decides: targets, ranks, alphas, rslora, dora, fused.
  void choose(LoraOptions& options) const;

  // Sets the values of the adapters that add_lora() made with these options.
  void fill(SourceGraph& graph, const std::vector<LoraAdapter>& adapters) const;

  const std::vector<FittedModule>& modules() const { return modules_; }

 private:
  std::vector<FittedModule> modules_;
  bool rslora_ = false, dora_ = false, fused_ = false;
};

}  // namespace amp
