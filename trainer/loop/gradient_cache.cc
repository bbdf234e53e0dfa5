// gradient_cache.h describes the three stages. Stage 2 is a separate Program (Joint) for each number of rows. The
// Program's inputs are the outputs of all rows; its outputs are the loss sums and the cached gradients. Stage 3
// repeats stage 1 bit for bit, because random nodes are indexed by row (RunState::samples_before). Otherwise the
// stages equal launch_micro_batches().

#include "trainer/loop/gradient_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/interpreter.h"
#include "backend/memory_phase.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/autodiff.h"
#include "graph/passes.h"
#include "ops/compose.h"
#include "trainer/compile/discarded_terms.h"
#include "trainer/loop/micro_batches.h"
#include "trainer/losses/loss.h"

namespace amp {

struct GradientCache::Joint {
  Joint(std::shared_ptr<const Graph> graph, const ProgramOptions& options) : program(std::move(graph), options) {}

  Program program;
  std::vector<Tensor> outputs;                 // the model's outputs of all rows, in the order of values_
  std::vector<const Tensor*> sums;             // the sum of each term
  std::vector<std::vector<Tensor>> gradients;  // for each term: the gradients with respect to the outputs that it reads
};

namespace {

std::string output_input(size_t value) { return cat("output.", value); }

// Returns a view of n rows, starting with `row`.
Tensor rows_of(const Tensor& t, int64_t row, int64_t n) {
  Dims d = t.dims;
  const int64_t wide = d[0] > 0 ? t.bytes() / d[0] : 0;
  d[0] = n;
  return {static_cast<char*>(t.data) + row * wide, t.dtype, d};
}

Dims width_of(const Dims& d) { return {d.begin() + 1, d.end()}; }

HostTensor joined(const std::string& name, const std::vector<const HostTensor*>& parts) {
  Dims d = parts[0]->dims();
  if (d.empty())
    fail(Exit::data, "E_DATA_SHAPE", cat("'", printable(name), "' has no rows that could be joined"),
         "leave `gradient_cache` out");
  d[0] = 0;
  for (const HostTensor* p : parts) {
    if (p->dtype() != parts[0]->dtype() || p->rank() != parts[0]->rank() ||
        width_of(p->dims()) != width_of(parts[0]->dims()))
      fail(Exit::data, "E_DATA_SHAPE",
           cat("`gradient_cache` joins the rows of micro-batches, and those of '", printable(name), "' are ",
               to_string(parts[0]->dims()), " and ", to_string(p->dims())),
           "leave `gradient_cache` out, or give rows of one size");
    d[0] += p->dims()[0];
  }
  HostTensor out = HostTensor::empty(parts[0]->dtype(), d);
  auto* to = static_cast<char*>(out.mutable_data());
  for (const HostTensor* p : parts) {
    std::memcpy(to, p->data(), static_cast<size_t>(p->bytes()));
    to += p->bytes();
  }
  return out;
}

// Splits the items of a loss into parts: pairs (first item, number of items). Loss and gradient of a part are computed
// before those of the next, so the matrix of all scores is never stored. A single part with count 0 means all items.
std::vector<std::pair<int64_t, int64_t>> parts_of(const LossSpec& spec, int64_t rows) {
  constexpr int64_t kAtOnce = 1024;
  const auto items = loss_rule(spec.kind).in_parts ? static_cast<int64_t>(count_items(spec, {}, rows).at(0)) : 0;
  if (items <= kAtOnce) return {{0, 0}};
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int64_t first = 0; first < items; first += kAtOnce) out.emplace_back(first, std::min(kAtOnce, items - first));
  return out;
}

struct Differentiated {
  ValueId sum;
  std::vector<ValueId> gradients;  // with respect to the outputs that the term reads
};

// Adds the sum and the gradients of another part of a loss to its term.
void differentiate(Builder& b, ValueId sum, const std::vector<ValueId>& outputs, Differentiated& term) {
  Autodiff ad(b, outputs);
  ad.seed(sum, b.expand(b.scalar(1, b.dtype(sum)), b.dims(sum)));
  ad.run();
  const bool more = static_cast<bool>(term.sum);
  term.sum = more ? add(b, term.sum, sum) : sum;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const ValueId v = outputs[k], found = ad.grad(v);
    const ValueId g = found ? found : filled(b, 0, b.dtype(v), b.dims(v));
    if (more) {
      term.gradients[k] = add(b, term.gradients[k], g);
    } else {
      term.gradients.push_back(g);
    }
  }
}

}  // namespace

GradientCache::GradientCache(Session& session, const Losses& losses, Communicator& ranks)
    : session_(session),
      losses_(losses),
      ranks_(ranks),
      across_(losses_across_rows(losses)),
      joints_(session.device()) {
  size_t index = 0;
  for (const LossSpec& s : losses.parts) {
    const size_t terms = term_weights(s).size();
    if (loss_rule(s.kind).across_rows) {
      if (ranks.size() > 1 && !s.label_name().empty())
        fail(Exit::unsupported, "E_GRADIENT_CACHE",
             cat("`gradient_cache` takes the loss ", s.kind, ", which has labels, only on one rank"),
             "leave `gradient_cache` or `ranks` out");
      std::vector<size_t> reads;
      for (const std::string& v : s.values()) {
        const auto at = std::find(values_.begin(), values_.end(), v);
        reads.push_back(static_cast<size_t>(at - values_.begin()));
        if (at == values_.end()) values_.push_back(v);
      }
      for (size_t t = 0; t < terms; ++t) terms_.push_back({index + t, reads});
    }
    index += terms;
  }
}

GradientCache::~GradientCache() = default;

// Records the dims of one row of each output that the terms read. Fails if an earlier micro-batch had other dims.
void GradientCache::observe(const Program& forward, int64_t rows) {
  std::vector<Dims> widths;
  for (const std::string& name : values_) {
    const Dims& d = forward.output(name).dims;
    if (d.empty() || d[0] != rows)
      fail(Exit::unsupported, "E_GRADIENT_CACHE",
           cat("`gradient_cache` needs an output with a row for each of the batch's ", rows, ", and '", printable(name),
               "' is ", to_string(d)),
           "choose another `output`, or leave `gradient_cache` out");
    widths.push_back(width_of(d));
  }
  if (widths_.empty()) widths_ = widths;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (widths[i] != widths_[i])
      fail(Exit::data, "E_DATA_SHAPE",
           cat("`gradient_cache` joins the rows of micro-batches, and those of '", printable(values_[i]), "' are ",
               to_string(widths_[i]), " and ", to_string(widths[i])),
           "leave `gradient_cache` out, or give rows of one size");
  }
}

// Exchanges the dims of rows before the first stage 2, for ranks that have no rows in this step.
void GradientCache::agree() {
  constexpr size_t kMost = 16;
  std::vector<double> dims(values_.size() * kMost, 0);
  for (size_t i = 0; i < widths_.size(); ++i) {
    check(widths_[i].size() < kMost, "an output of too many dimensions");
    dims[i * kMost] = static_cast<double>(widths_[i].size());
    for (size_t k = 0; k < widths_[i].size(); ++k) dims[i * kMost + 1 + k] = static_cast<double>(widths_[i][k]);
  }
  ranks_.all_reduce(std::span(dims), Reduction::max);
  widths_.assign(values_.size(), {});
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto from = dims.begin() + static_cast<std::ptrdiff_t>(i * kMost);
    for (int64_t k = 1; k <= static_cast<int64_t>(*from); ++k) widths_[i].push_back(static_cast<int64_t>(from[k]));
  }
}

Tensors GradientCache::joined_labels(const std::vector<Tensors>& batches) const {
  Tensors out;
  for (const std::string& name : across_.labels()) {
    std::vector<const HostTensor*> parts;
    // The items were already counted from the labels, so every batch has all labels.
    for (const Tensors& b : batches) parts.push_back(&b.at(name));
    out[name] = joined(name, parts);
  }
  return out;
}

// Returns the graph of stage 2. It uses the session's floating type, as losses do under any precision plan.
std::shared_ptr<const Graph> GradientCache::graph(int64_t rows, const Tensors& labels) const {
  const DType type = session_.float_type();
  auto graph = std::make_shared<Graph>();
  Builder b(*graph, cpu_evaluator());
  b.origin = Origin{-1, "loss"};
  std::vector<ValueId> values;
  for (size_t i = 0; i < values_.size(); ++i) {
    Dims d{rows};
    d.insert(d.end(), widths_[i].begin(), widths_[i].end());
    values.push_back(graph->add_input(output_input(i), type, d));
  }
  std::map<std::string, ValueId> given;
  for (const auto& [name, t] : labels)
    given[name] = graph->add_input(name, is_float(t.dtype()) ? type : t.dtype(), t.dims());
  std::vector<Differentiated> terms(terms_.size());
  size_t first_term = 0;
  for (const LossSpec& s : across_.parts) {
    LossInputs in;
    for (const size_t v : terms_[first_term].values) in.outputs.push_back(values[v]);
    if (const std::string label = s.label_name(); !label.empty()) in.label = given.at(label);
    in.rows = rows;
    for (const auto& [first, count] : parts_of(s, rows)) {
      in.first_item = first;
      in.item_count = count;
      const std::vector<ValueId> sums = build_loss(b, s, in);
      for (size_t t = 0; t < sums.size(); ++t) differentiate(b, sums[t], in.outputs, terms[first_term + t]);
    }
    first_term += term_weights(s).size();
  }
  for (size_t t = 0; t < terms.size(); ++t) {
    graph->outputs.push_back({loss_output(t), terms[t].sum});
    for (size_t k = 0; k < terms[t].gradients.size(); ++k)
      graph->outputs.push_back({cached_input(t, k), terms[t].gradients[k]});
  }
  return std::make_shared<Graph>(prune(*graph));
}

GradientCache::Joint& GradientCache::joint(int64_t rows, const Tensors& labels) {
  Bucket key = bucket_of(labels);
  key.emplace_back("", session_.float_type(), Dims{rows});
  if (const std::unique_ptr<Joint>* known = joints_.find(key)) return **known;
  const std::shared_ptr<const Graph> made = graph(rows, labels);
  const auto compile = [&] {
    ProgramOptions o;
    o.device = &session_.device();
    o.arena = &joints_.arena();
    return in_phase(cat("the loss of ", rows, " rows together (`gradient_cache`)"),
                    [&] { return std::make_unique<Joint>(made, o); });
  };
  const int64_t bytes = amp::program_bytes(*made);
  Joint& joint = *joints_.add(key, bytes, session_.programs().limit_for(bytes), compile, [](const auto&) {});
  for (size_t i = 0; i < values_.size(); ++i) joint.outputs.push_back(joint.program.input(output_input(i)));
  for (size_t t = 0; t < terms_.size(); ++t) {
    joint.sums.push_back(&joint.program.output(loss_output(t)));
    joint.gradients.emplace_back();
    for (size_t k = 0; k < terms_[t].values.size(); ++k)
      joint.gradients.back().push_back(joint.program.output(cached_input(t, k)));
  }
  return joint;
}

void GradientCache::launch(const std::vector<Tensors>& batches, const std::vector<int64_t>& before, int64_t rows,
                           LossTerms& terms, GradientWatch* watch) {
  // With a single micro-batch there is nothing to cache.
  if (ranks_.size() == 1 && batches.size() < 2)
    return launch_micro_batches(session_, losses_, batches, before, terms, nullptr, watch);
  Device& device = session_.device();
  const Tensors labels = joined_labels(batches);
  Joint* all = nullptr;
  const auto begin = [&] {
    if (ranks_.size() > 1 && !std::exchange(agreed_, true)) agree();
    all = &joint(rows, labels);
    for (const auto& [name, t] : labels) {
      if (all->program.has_input(name)) all->program.set_input(name, t);
    }
    for (const Tensor& t : all->outputs) {
      if (ranks_.size() > 1) device.fill(t.data, 0, t.bytes());  // rows of other ranks are 0; a sum fills them in
    }
  };
  session_.stage_statistics();
  for (size_t m = 0; m < batches.size(); ++m) {
    session_.state().samples_before = before[m];
    const int64_t n = batch_rows(losses_, batches[m]);
    const Program& forward = session_.launch_forward(losses_, batches[m]);
    observe(forward, n);
    check(before[m] + n <= rows, "GradientCache: a micro-batch beyond its window");
    if (!all) begin();
    for (size_t i = 0; i < values_.size(); ++i)
      device.convert(forward.output(values_[i]), rows_of(all->outputs[i], before[m], n))();
  }
  if (!all) begin();
  if (ranks_.size() > 1) session_.state().ranks->sum(all->outputs);
  all->program.run();
  std::vector<size_t> cached;  // terms whose sums come from stage 2; those of stage 3 are meaningless and discarded
  for (const Term& t : terms_) cached.push_back(t.index);
  DiscardedTerms others(terms, cached);
  launch_each(
      session_, before,
      [&](size_t m, bool accumulate) {
        session_.launch_cached(losses_, batches[m], others, accumulate, [&](Program& micro) {
          for (size_t t = 0; t < terms_.size(); ++t) {
            for (size_t k = 0; k < terms_[t].values.size(); ++k) {
              const Tensor& to = micro.input(cached_input(terms_[t].index, k));
              device.copy(to.data, rows_of(all->gradients[t][k], before[m], to.dims[0]).data, to.bytes());
            }
          }
        });
      },
      watch);
  if (!ranks_.is_root()) return;  // every rank has the total, which must count once when the ranks' sums are added
  for (size_t t = 0; t < terms_.size(); ++t) terms.add_term(terms_[t].index, *all->sums[t]);
}

}  // namespace amp
