// Measures steps with the StepEngine and Program::run_timed(). The plain step time is measured separately, because
// timing a kernel waits for the device and so slows the step down.

#include "trainer/compile/step_profile.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "base/steady_seconds.h"
#include "base/text.h"
#include "trainer/compile/update_profile.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {

constexpr int kLeastWarm = 3, kMostWarm = 100;  // limits of the number of steps before the measurement

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

std::string shape_of(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<std::string> out;
  for (const ValueId v : values) {
    if (v) out.push_back(cat(name_of(g.value(v).dtype), to_string(g.value(v).dims)));
  }
  return join(out, " ");
}

NodeTime describe(const Program::TimedStep& s, const Graph& g, const SourceGraph& source) {
  NodeTime t;
  t.op = s.op;
  t.work = s.work;
  if (!s.node) return t;
  t.role = s.node->origin.role;
  if (s.node->origin.source_node >= 0) t.name = source.nodes.at(static_cast<size_t>(s.node->origin.source_node)).name;
  t.operands = cat(shape_of(g, s.node->in), " -> ", shape_of(g, s.node->out));
  return t;
}

// Runs steps on one set of micro-batches and records their times.
class Steps {
 public:
  Steps(Session& session, const OptimizerConfig& optimizer, const LossScaleConfig& scale, const Losses& losses,
        const std::vector<Tensors>& window)
      : session_(session), losses_(losses), engine_(session, optimizer, still(), scale, losses, 0) {
    input_.losses = &losses;
    input_.batches = window;
    for (const Tensors& batch : window) input_.rows.push_back(batch_rows(losses, batch));
  }

  void warm_up() {
    bool choosing = true;
    const Instrumentation plain{[&](Program& p) {
      p.run();
      choosing = p.choosing_threads();
      threads_ = p.threads();
    }};
    for (int i = 0; i < kLeastWarm || (choosing && i < kMostWarm); ++i) one(&plain);
  }

  double plain_seconds(int steps) {
    std::vector<double> all;
    for (int i = 0; i < steps; ++i) {
      const double begin = steady_seconds();
      one(nullptr);
      all.push_back(steady_seconds() - begin);
    }
    return median(all);
  }

  void look_into(int steps, StepProfile& out) {
    const Instrumentation timed{[&](Program& p) {
      passes_.push_back(p.run_timed());
      graph_ = p.graph();
      last_ = passes_.back().empty() ? steady_seconds() : passes_.back().back().end;
    }};
    std::vector<double> wall, updates, rests;
    origin_ = steady_seconds();
    for (int i = 0; i < steps; ++i) {
      const size_t first = out.spans.size();
      const double begin = steady_seconds();
      out.spans.push_back({StepSpan::step, -1, begin - origin_, 0});
      last_ = begin;
      one(&timed);
      const double end = steady_seconds();
      const double in_kernels = take_passes(out);
      out.spans[first].seconds = end - begin;
      out.spans.push_back({StepSpan::update, -1, last_ - origin_, end - last_});
      wall.push_back(end - begin);
      updates.push_back(end - last_);
      rests.push_back(last_ - begin - in_kernels);
    }
    out.steps = steps;
    out.threads = threads_ > 0 ? threads_ : omp_get_max_threads();
    out.update = median(updates);
    out.rest = median(rests);
    out.wall_seconds = median(wall);
    out.seconds = out.update + out.rest;
    for (size_t i = 0; i < out.nodes.size(); ++i) {
      out.nodes[i].calls /= steps;
      out.nodes[i].seconds = median(times_[i]);
      out.seconds += out.nodes[i].seconds;
    }
  }

 private:
  static ScheduleConfig still() {
    ScheduleConfig c;
    c.kind = "constant";
    c.lr = 0;
    return c;
  }

  void one(const Instrumentation* look) {
    LossAccumulator counted(losses_);
    for (const Tensors& batch : input_.batches) counted.count(batch);
    input_.look = look;
    engine_.submit(input_, counted);
    while (!engine_.take(true)) {
    }
    session_.device().synchronize();
    ++input_.step;
  }

  // Adds the times of the step's micro-batches and of their kernels to `out`. Returns the total seconds of the
  // micro-batches. All micro-batches run the same Program, so their kernels are in the same order.
  double take_passes(StepProfile& out) {
    double all = 0;
    for (std::vector<double>& of : times_) of.push_back(0);
    for (const std::vector<Program::TimedStep>& pass : passes_) {
      if (pass.empty()) continue;
      const double begin = pass.front().begin, seconds = pass.back().end - begin;
      all += seconds;
      out.spans.push_back({StepSpan::micro_batch, -1, begin - origin_, seconds});
      for (size_t i = 0; i < pass.size(); ++i) {
        if (i >= out.nodes.size()) {
          out.nodes.push_back(describe(pass[i], *graph_, session_.source()));
          times_.push_back({0});
        }
        const double of_kernel = pass[i].end - pass[i].begin;
        ++out.nodes[i].calls;
        times_[i].back() += of_kernel;
        out.spans.push_back({StepSpan::kernel, static_cast<int>(i), pass[i].begin - origin_, of_kernel});
      }
    }
    passes_.clear();
    return all;
  }

  Session& session_;
  const Losses& losses_;
  StepEngine engine_;
  StepInput input_;
  int threads_ = 0;
  std::vector<std::vector<double>> times_;               // seconds, indexed by kernel and step
  std::vector<std::vector<Program::TimedStep>> passes_;  // timed kernels of each micro-batch of the current step
  std::shared_ptr<const Graph> graph_;
  double origin_ = 0, last_ = 0;
};

}  // namespace

StepProfile profile_step(Session& session, const OptimizerConfig& optimizer, const LossScaleConfig& scale,
                         const Losses& losses, const std::vector<Tensors>& window, int steps) {
  StepProfile out;
  Steps all(session, optimizer, scale, losses, window);
  all.warm_up();
  out.plain_seconds = all.plain_seconds(steps);
  all.look_into(steps, out);
  out.update_bytes = update_bytes(describe_update(session, optimizer, {}, {}, losses, 0), session.copies().copies());
  return out;
}

}  // namespace amp
