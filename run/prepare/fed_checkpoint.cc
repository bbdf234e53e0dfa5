#include "run/prepare/fed_checkpoint.h"

#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "data/loader.h"
#include "run/settings/settings.h"

namespace amp {

void drop_data_settings(std::map<std::string, std::string>& saved, std::map<std::string, std::string>& fixed) {
  const auto of_data = [](const std::string& name) {
    const Setting* const s = find_setting(name);
    return name == "join" || (s && s->group == SettingGroup::data && name != "batch_size");
  };
  std::erase_if(saved, [&](const auto& entry) { return of_data(entry.first); });
  std::erase_if(fixed, [&](const auto& entry) { return of_data(entry.first); });
}

void adopt_fed_checkpoint(Checkpoint& checkpoint, const std::map<std::string, std::string>& fixed, const Dataset& data,
                          const SamplerOptions& options, const Log& log) {
  if (checkpoint.hashes.count("train")) return;  // a run that reads its data from files stores a hash of them
  std::map<std::string, std::string> compared = fixed;
  drop_data_settings(checkpoint.hashes, compared);
  require_same(checkpoint.hashes, compared);
  checkpoint.hashes = fixed;
  const Sampler sampler = make_sampler(data, options);
  int64_t epoch = 0, window = checkpoint.step;  // each optimizer step consumes one accumulation step
  for (int64_t all = sampler.windows_per_epoch(epoch); window >= all; all = sampler.windows_per_epoch(epoch)) {
    window -= all;
    ++epoch;
  }
  nlohmann::json state = nlohmann::json::parse(checkpoint.state);
  state["sampler"] = {{"epoch", epoch}, {"window", window}};
  checkpoint.state = state.dump();
  log.note(
      cat("the checkpoint is from a program that fed its batches: settings of data are not compared, and the run "
          "goes on after step ",
          checkpoint.step, " of its own order of data"));
}

}  // namespace amp
