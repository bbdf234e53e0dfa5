// Teacher: a second model, frozen, whose outputs on the same inputs are targets of the distill loss.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp {

class Teacher {
 public:
  // graph must outlive the teacher. For each distill loss the teacher's output of the same name, else its only floating
  // output.
  // Exit::usage (E_TEACHER) when there is no such output, or when the teacher takes an input that the batch lacks.
  Teacher(const SourceGraph& graph, const SessionOptions& options, const Losses& losses);

  // Of the teacher, one a distilled output.
  const std::vector<std::string>& outputs() const { return names_; }
  // Reads another value in an output's place: the logits behind it.
  void read(size_t output, int value) { values_.at(output) = value; }
  // The graph inputs that it needs.
  std::vector<int> inputs() const;
  // Adds its outputs on the batch's inputs to the batch, each under teacher_name(output of the model). Ranks that are
  // threads take turns.
  void add_outputs(Tensors& batch);

 private:
  const SourceGraph& graph_;
  std::mutex mutex_;
  Session session_;
  std::vector<std::string> students_, names_;
  std::vector<int> values_;
};

}  // namespace amp
