// BucketProgram: the Program of a compiled graph (trainer/compile/graph_compiler.h) with all that is fed and read found once:
// loss terms, backward's seeds, running statistics, the batch's tensors.
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

// How a micro-batch is run by those who look at it, instead of Program::run(): to observe, to profile, to see its
// graph.
struct Instrumentation {
  std::function<void(Program&)> run;
  bool fused = true;  // false: nodes as they are before fusing
};

class BucketProgram {
 public:
  // batch, packing: what will be fed, tensors of the same names, types and shapes. packing: null for a graph with its
  // padding. staged: where running statistics go, by slot.
  BucketProgram(std::shared_ptr<const Graph> graph, const ProgramOptions& options, const Tensors& batch,
                const Packing* packing, const std::map<int, Tensor>& staged = {});

  void feed(const Tensors& batch, const Packing* packing);

  // A training micro-batch: gradients are in the arena (or added to it), statistics staged.
  void launch(LossTerms& terms, const Instrumentation* look = nullptr);
  void run() { program_.run(); }     // forward
  std::vector<double> sums() const;  // of the loss terms

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
  // By place in the batch, and among a packing's inputs; null: the graph does not read it.
  Inputs inputs_, packing_;
  std::vector<Term> terms_;
  std::vector<Statistic> statistics_;
};

}  // namespace amp
