// Will a model train? Every node with its reason, the parameters, the head that would be chosen.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "importer/surgery/dropout.h"
#include "run/model/fixed_shapes.h"
#include "run/spec/spec.h"

namespace amp {

struct CheckedNode {
  std::string name, op, domain;
  int64_t opset = 0;
  bool live = false, forward = false, backward = false, gradient = false;
  std::string shape, precision, reason, todo;
};
std::string operator_name(const CheckedNode& node);  // with its domain

// What training on labelled text would attach; for the number of classes asked for, or for any that no output has.
struct CheckedHead {
  std::vector<std::pair<std::string, int64_t>> own;  // outputs that serve as they are, and for how many classes
  bool needed = false;
  std::string from, pooling, reason;
  std::string error, todo;  // why none can be attached
};

struct CheckReport {
  bool trains = false;
  std::string todo;
  int64_t batch = 0, length = 0;  // what open dimensions were probed with
  ModelShapes fixed;              // sizes that the graph holds
  std::vector<CheckedNode> nodes;
  int no_forward = 0, no_backward = 0;
  std::set<std::string> unsupported;      // operators
  std::vector<std::string> loss_outputs;  // that can carry a loss
  int64_t tensors = 0, elements = 0;      // trainable
  int unreached = 0;                      // trainable tensors without a gradient from the chosen outputs
  CheckedHead head;
  std::vector<std::string> before_training;
  std::vector<DropoutSpot> dropout;
  std::vector<std::string> notes;
  std::vector<std::string> parameter_lines, tensor_lines;  // a JSON object each
  std::string tensor_table;                                // for people
};

CheckReport check_model(const RunSpec& spec, const Log& log = {});

}  // namespace amp
