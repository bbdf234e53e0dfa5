// One op-list file as written, before inheritance: shape and names are checked, nothing is resolved.
#pragma once

#include <array>
#include <functional>

#include "precision/op_list.h"

namespace amp {

struct ClassEdit {
  bool replace = false;  // given as an array
  std::vector<std::string> add, remove;
};

struct OpListDoc {
  std::optional<std::string> extends;
  std::optional<DType> dtype;
  std::optional<Propagation> propagation;
  std::array<ClassEdit, 4> classes;  // by OpClass
  std::vector<PrecisionRule> rules;  // source is set only where the file records one
  std::function<void(LossScaleConfig&)> edit_loss_scale = [](LossScaleConfig&) {};
  std::string graph;
  std::map<std::string, std::string> recorded;
};

OpListDoc parse_op_list_doc(std::string_view text);

}  // namespace amp
