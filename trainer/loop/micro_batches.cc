#include "trainer/loop/micro_batches.h"

#include "trainer/compile/host_terms.h"

namespace amp {

namespace {
struct NoWatchAfter {
  RunState& state;
  ~NoWatchAfter() { state.watch = nullptr; }
};
}  // namespace

void launch_each(Session& session, const std::vector<int64_t>& before,
                 const std::function<void(size_t m, bool accumulate)>& launch, GradientWatch* watch) {
  const bool accumulate = before.size() > 1;
  if (accumulate || before.empty()) session.zero_grads();
  session.stage_statistics();
  const NoWatchAfter ends{session.state()};
  for (size_t m = 0; m < before.size(); ++m) {
    session.state().samples_before = before[m];  // makes random numbers independent of micro-batch sizes and ranks
    if (watch && m + 1 == before.size()) {
      watch->begin();
      session.state().watch = watch;
    }
    launch(m, accumulate);
  }
}

void launch_micro_batches(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                          const std::vector<int64_t>& before, LossTerms& terms, const Instrumentation* look,
                          GradientWatch* watch) {
  check(before.size() == batches.size(), "launch_micro_batches: as many offsets as micro-batches");
  launch_each(
      session, before,
      [&](size_t m, bool accumulate) { session.launch_micro_batch(losses, batches[m], terms, accumulate, look); },
      watch);
}

std::vector<int64_t> rows_before(const std::vector<int64_t>& rows) {
  std::vector<int64_t> before;
  int64_t row = 0;
  for (const int64_t n : rows) {
    before.push_back(row);
    row += n;
  }
  return before;
}

std::vector<double> run_micro_batches(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                                      const std::vector<double>& seeds, const Instrumentation* look) {
  std::vector<int64_t> rows;
  for (const Tensors& batch : batches) rows.push_back(batch_rows(losses, batch));
  HostTerms terms(session.device(), seeds);
  launch_micro_batches(session, losses, batches, rows_before(rows), terms, look);
  return terms.sums();
}

std::vector<double> run_micro_batch(Session& session, const Losses& losses, const Tensors& batch,
                                    const std::vector<double>& seeds, bool accumulate, const Instrumentation* look) {
  HostTerms terms(session.device(), seeds);
  session.launch_micro_batch(losses, batch, terms, accumulate, look);
  return terms.sums();
}

}  // namespace amp
