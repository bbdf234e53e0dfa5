#include "run/data/limits.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "data/subset.h"
#include "run/spec/spec.h"

namespace amp {

std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> data, int64_t limit, const RunSpec& spec, int64_t together) {
  if (limit <= 0 || limit >= data->size()) return data;
  std::vector<int64_t> samples(static_cast<size_t>(limit));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  if (spec.data.limit_order == "sample")
    samples = draw_samples(*data, limit, together, static_cast<uint64_t>(spec.device.seed));
  return make_subset(std::move(data), std::move(samples));
}

int64_t rows_in_turn(const Losses& losses, const Dataset& data) {
  int64_t n = 1;
  for (const LossSpec& s : losses.parts) n = std::max(n, rows_together(s));
  return data.rows_per_sample() > 1 ? 1 : n;
}

void split_validation(const RunSpec& spec, TrainData& data) {
  if (*spec.data.val_split <= 0) return;
  const std::shared_ptr<const Dataset> all = std::move(data.train);
  SampleSplit split = split_samples(*all, *spec.data.val_split, static_cast<uint64_t>(spec.device.seed));
  data.train = make_subset(all, std::move(split.train));
  const std::shared_ptr<const Dataset> evaluated = all->for_evaluation();
  data.val = make_subset(evaluated ? evaluated : all, std::move(split.held_out));
}

void check_classes_left(const DataSpec& spec, const std::vector<std::string>& classes, const TrainData& data,
                        const Log& log) {
  if (classes.size() < 2) return;
  for (const Dataset* d : {data.train.get(), data.val.get()}) {
    const bool training = d == data.train.get();
    if (!d || d->size() < 2) continue;
    const std::vector<int64_t> strata = strata_of(*d);
    if (strata.empty() || std::any_of(strata.begin(), strata.end(), [&](int64_t s) { return s != strata[0]; }))
      continue;
    const bool known = strata[0] >= 0 && strata[0] < static_cast<int64_t>(classes.size());
    const std::string fact =
        cat("all ", with_thousands(d->size()), training ? " training" : " validation", " samples have the label '",
            known ? printable(classes[static_cast<size_t>(strata[0])]) : std::to_string(strata[0]), "' of ",
            classes.size());
    const bool cut = training ? spec.limit_train > 0 : spec.limit_val > 0;
    const std::string hint = !cut ? "check `label_column`, or whether the file was cut or sorted by label"
                             : spec.limit_order == "first" ? "leave out `limit_order` first, or give a larger limit"
                                                           : "give a larger limit";
    if (training) fail(Exit::data, "E_DATA_LABEL", cat(fact, ": there are no classes to distinguish"), hint);
    log.warning(cat(fact, ": accuracy and the like mean little; ", hint));
  }
}

}  // namespace amp
