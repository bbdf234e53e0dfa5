// BucketProgram: the Program of a compiled graph (trainer/compile/graph_compiler.h) for one bucket of input shapes.
// The constructor looks up the graph's inputs and outputs once: batch tensors, loss sums, seeds of the backward pass,
// running statistics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/update.h"
#include "trainer/compile/packing.h"
#include "trainer/losses/losses.h"

namespace amp {

// Replaces the call of Program::run() for a micro-batch, for example with an observed or a timed run.
struct Instrumentation {
  std::function<void(Program&)> run;
  bool fused = true;  // false: runs the graph before fusion
};

class BucketProgram {
 public:
  // batch and packing: examples with the names, types and shapes of the tensors that feed() will write. packing: null
  // for a graph that computes padding. staged: destinations of the updated running statistics, by parameter slot.
  BucketProgram(std::shared_ptr<const Graph> graph, const ProgramOptions& options, const Tensors& batch,
                const Packing* packing, const std::map<int, Tensor>& staged = {});

  void feed(const Tensors& batch, const Packing* packing);

  // Runs a training micro-batch: writes or adds gradients in the arena and stores the updated statistics as staged.
  void launch(LossTerms& terms, const Instrumentation* look = nullptr);
  void run() { program_.run(); }     // forward
  std::vector<double> sums() const;  // returns the sum of each loss term

  Program& program() { return program_; }
  const Program& program() const { return program_; }

 private:
  using Inputs = std::vector<const Program::Input*>;
  Inputs find(const Tensors& tensors) const;
  void write(const Inputs& to, const Tensors& tensors);

  struct Term {
    const Program::Input* seed;  // null: no gradient
    const Tensor* sum;
  };
  struct Statistic {
    Tensor staged;
    const Tensor* moved;
  };

  Device& device_;
  Program program_;
  // In the order of the batch's tensors and of Packing::inputs; null: the graph does not read that tensor.
  Inputs inputs_, packing_;
  std::vector<Term> terms_;
  std::vector<Statistic> statistics_;
};

}  // namespace amp
