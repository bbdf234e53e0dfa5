#include "trainer/compile/bucket_program.h"

#include <utility>

#include "ops/statistics.h"
#include "trainer/compile/graph_compiler.h"

namespace amp {

BucketProgram::BucketProgram(std::shared_ptr<const Graph> graph, const ProgramOptions& options, const Tensors& batch,
                             const Packing* packing, const std::map<int, Tensor>& staged)
    : device_(*options.device), program_(std::move(graph), options), inputs_(find(batch)) {
  if (packing) packing_ = find(packing->inputs);
  while (const Tensor* sum = program_.find_output(loss_output(terms_.size())))
    terms_.push_back({program_.find_input(seed_input(terms_.size())), sum});
  for (const auto& [slot, to] : staged) {
    if (const Tensor* moved = program_.find_output(statistic_output(slot))) statistics_.push_back({to, moved});
  }
}

BucketProgram::Inputs BucketProgram::find(const Tensors& tensors) const {
  Inputs out;
  for (const auto& [name, t] : tensors) out.push_back(program_.find_input(name));
  return out;
}

void BucketProgram::write(const Inputs& to, const Tensors& tensors) {
  check(tensors.size() == to.size(), "a batch of another bucket");
  auto input = to.begin();
  for (const auto& [name, t] : tensors) {
    if (*input) program_.write(**input, t);
    ++input;
  }
}

void BucketProgram::feed(const Tensors& batch, const Packing* packing) {
  write(inputs_, batch);
  if (packing) write(packing_, packing->inputs);
}

void BucketProgram::launch(LossTerms& terms, const Instrumentation* look) {
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].seed) terms.seed(i, terms_[i].seed->tensor);
  }
  if (look) {
    look->run(program_);
  } else {
    program_.run();
  }
  for (const Statistic& s : statistics_) device_.copy(s.staged.data, s.moved->data, s.staged.bytes());
  for (size_t i = 0; i < terms_.size(); ++i) terms.add_term(i, *terms_[i].sum);
}

std::vector<double> BucketProgram::sums() const {
  std::vector<double> out;
  for (const Term& t : terms_) out.push_back(device_.read(*t.sum).to_doubles().at(0));
  return out;
}

}  // namespace amp
