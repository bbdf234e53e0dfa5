// `check`: whether a model can train, with a reason for each node, its parameters, and the head that would be chosen.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "importer/surgery/dropout.h"
#include "run/model/fixed_shapes.h"

namespace amp {

struct RunSpec;

struct CheckedNode {
  std::string name, op, domain;
  int64_t opset = 0;
  bool live = false, forward = false, backward = false, gradient = false;
  std::string shape, precision, reason, todo;
};
std::string operator_name(const CheckedNode& node);  // "Gemm", "com.microsoft::Gelu"

// The new head that training on labeled text would attach to the model. Its number of outputs is `num_labels`. Without
// `num_labels`, the check assumes that the data has another number of classes than each existing output.
struct CheckedHead {
  // Outputs that a loss can read without a new head, with their numbers of classes.
  std::vector<std::pair<std::string, int64_t>> own;
  bool needed = false;
  std::string from, pooling, reason;
  std::string error, todo;  // the reason why no head can be attached, and the remedy
};

struct CheckReport {
  bool trains = false;
  std::string todo;
  int64_t batch = 0, length = 0;  // sizes of open dimensions in the dry run
  ModelShapes fixed;              // sizes that the graph fixes
  std::vector<CheckedNode> nodes;
  int no_forward = 0, no_backward = 0;
  std::set<std::string> unsupported;      // operators with a node that cannot be computed
  std::vector<std::string> loss_outputs;  // outputs that a loss can read
  int64_t tensors = 0, elements = 0;      // numbers of trainable tensors and of their elements
  int unreached = 0;                      // number of trainable tensors that get no gradient from the chosen outputs
  CheckedHead head;
  std::vector<std::string> before_training;
  std::vector<DropoutSpot> dropout;
  std::vector<std::string> notes;
  std::vector<std::string> parameter_lines, tensor_lines;  // each is a JSON object
  std::string tensor_table;                                // the tensors as a table for users
};

CheckReport check_model(const RunSpec& spec, const Log& log = {});

}  // namespace amp
