// Parses one op-list file. Structure and names are checked; "extends" is not resolved yet.
#pragma once

#include <array>
#include <functional>

#include "precision/op_list.h"

namespace amp {

struct ClassEdit {
  bool replace = false;  // true: the class was given as an array, which replaces the inherited one
  std::vector<std::string> add, remove;
};

struct OpListDoc {
  std::optional<std::string> extends;
  std::optional<DType> dtype;
  std::optional<Propagation> propagation;
  std::array<ClassEdit, 4> classes;  // indexed by OpClass
  std::vector<PrecisionRule> rules;  // PrecisionRule::source is set only if the file records it
  std::function<void(LossScaleConfig&)> edit_loss_scale = [](LossScaleConfig&) {};
  std::string graph;
  std::map<std::string, std::string> recorded;
};

OpListDoc parse_op_list_doc(std::string_view text);

}  // namespace amp
