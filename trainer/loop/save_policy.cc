#include "trainer/loop/save_policy.h"

#include "base/error.h"

namespace amp {

SaveStrategy save_strategy(const std::string& text) {
  if (text == "auto") return SaveStrategy::automatic;
  if (text == "epoch") return SaveStrategy::epoch;
  if (text == "steps") return SaveStrategy::steps;
  if (text == "no") return SaveStrategy::none;
  fail(Exit::usage, "E_USAGE", cat("'", text, "' is not a save strategy"), "`save_strategy` auto, epoch, steps or no");
}

}  // namespace amp
