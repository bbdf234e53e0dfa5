// Teacher: a second, frozen model. Its outputs on the same inputs are the targets of the distill loss.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp {

class Teacher {
 public:
  // graph must outlive the teacher. For each distill loss the teacher uses its output of the same name, else its only
  // floating-point output. Throws E_TEACHER (Exit::usage) if there is no such output.
  Teacher(const SourceGraph& graph, const SessionOptions& options, const Losses& losses);

  // Names of the teacher's outputs, one per distilled output of the model.
  const std::vector<std::string>& outputs() const { return names_; }
  // Reads another value instead of an output, such as the logits before its softmax.
  void read(size_t output, int value) { values_.at(output) = value; }
  // Returns the graph inputs that the teacher needs.
  std::vector<int> inputs() const;
  // Runs the teacher on the batch's inputs and adds its outputs to the batch, each under teacher_name(output of the
  // model). Throws E_TEACHER if the batch lacks an input. Thread-safe, because ranks that are threads of one process
  // share the teacher.
  void add_outputs(Tensors& batch);

 private:
  const SourceGraph& graph_;
  std::mutex mutex_;
  Session session_;
  std::vector<std::string> students_, names_;
  std::vector<int> values_;
};

}  // namespace amp
