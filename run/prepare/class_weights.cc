#include "run/prepare/class_weights.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "data/class_names.h"

namespace amp {

namespace {

// Counts the labels of each class. Ids beyond the classes are skipped; another check rejects them with their location.
std::vector<int64_t> count_labels(const Dataset& data, const LossSpec& loss, int64_t classes) {
  std::vector<int64_t> out(static_cast<size_t>(classes));
  constexpr int64_t kAtOnce = 256;
  for (int64_t at = 0; at < data.size(); at += kAtOnce) {
    std::vector<int64_t> samples(static_cast<size_t>(std::min(kAtOnce, data.size() - at)));
    std::iota(samples.begin(), samples.end(), at);
    const HostTensor labels = data.labels_of(samples);
    if (!labels || is_float(labels.dtype()))
      fail(Exit::usage, "E_LOSS", "class_weights=balanced counts class ids, and these labels are none",
           "give a weight for each class: class_weights=1:2.5");
    for (const int64_t id : labels.to_ints()) {
      if (id != loss.ignore_index() && id >= 0 && id < classes) ++out[static_cast<size_t>(id)];
    }
  }
  return out;
}

}  // namespace

void name_class_weights(Losses& losses, const std::vector<std::string>& classes) {
  for (LossSpec& s : losses.parts) {
    for (const auto& [parameter, weights] : s.by_class) {
      if (classes.empty())
        fail(Exit::usage, "E_LOSS", cat(parameter, " by class name: the classes of this run have no names"),
             cat("give a number for each class, in their order: ", parameter, "=1:2.5"));
      const LabelIndex index{ClassNames(classes)};
      std::vector<double> list(classes.size(), 1);
      for (const auto& [name, weight] : weights) {
        const auto match = index.find(name);
        if (!match)
          fail(Exit::usage, "E_LOSS", cat(parameter, ": '", printable(name), "' is none of the classes"),
               cat("classes: ", some_of(classes)));
        list[static_cast<size_t>(match->id)] = weight;
      }
      s.set(parameter, std::move(list));
    }
    s.by_class.clear();
  }
}

void balance_class_weights(Losses& losses, const Dataset& train, int64_t classes, const std::vector<std::string>& names,
                           const Log& log) {
  for (LossSpec& s : losses.parts) {
    if (!s.balanced) continue;
    if (classes < 2 || s.label_name() != "label")
      fail(Exit::usage, "E_LOSS", cat("class_weights=balanced: the classes of the loss ", s.kind, " are not known"),
           "give a weight for each class: class_weights=1:2.5");
    const std::vector<int64_t> counts = count_labels(train, s, classes);
    const auto present = static_cast<double>(classes - std::count(counts.begin(), counts.end(), 0));
    const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    std::vector<double> weights;
    std::vector<std::string> reported;
    for (size_t c = 0; c < counts.size(); ++c) {
      weights.push_back(counts[c] > 0 ? all / (present * static_cast<double>(counts[c])) : 1);
      reported.push_back(cat(c < names.size() ? printable(names[c]) : std::to_string(c), " ", weights.back()));
    }
    log.info(cat("class weights, balanced over ", with_thousands(static_cast<int64_t>(all)),
                 " labels: ", join(reported, ", ")));
    s.balanced = false;
    s.set("class_weights", std::move(weights));
  }
}

}  // namespace amp
