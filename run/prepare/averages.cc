#include "run/prepare/averages.h"

#include <algorithm>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/spec/optimization.h"

namespace amp {

std::vector<double> ema_decays(const OptimizationSpec& optimization) {
  std::vector<double> out;
  for (const std::string& text : optimization.ema_decay) {
    const std::optional<double> decay = parse_number(text);
    if (!decay) fail(Exit::usage, "E_FLAG_VALUE", cat("`ema_decay`: '", printable(text), "' is no number"));
    if (*decay != 0) out.push_back(*decay);
  }
  return out;
}

bool names_average(const std::string& weights) { return weights == "ema" || weights.starts_with("ema:"); }

int average_named(const OptimizationSpec& optimization, const std::string& weights) {
  const std::vector<double> decays = ema_decays(optimization);
  if (decays.empty() && optimization.swa_start < 0)
    fail(Exit::usage, "E_EXPORT_WEIGHTS", "the run has no moving average of its weights",
         "train with `ema_decay` or `swa_start`, or export `export_weights` last");
  if (weights == "ema") return 0;
  const std::optional<double> asked = parse_number(std::string_view(weights).substr(4));
  const auto at = std::find(decays.begin(), decays.end(), asked.value_or(-1));
  if (at != decays.end()) return static_cast<int>(at - decays.begin());
  std::vector<std::string> known;
  for (const double d : decays) known.push_back("ema:" + number_text(d));
  fail(Exit::usage, "E_EXPORT_WEIGHTS", cat("the run has no average '", printable(weights), "'"),
       known.empty() ? "it averages by `swa_start`: `export_weights` ema" : cat("it has: ", join(known, ", ")));
}

}  // namespace amp
