// All flags of all verbs: the groups of flags_*.cc put together. Names are ours; .also() holds what users of Hugging
// Face, PaddlePaddle (LARK), timm, Apex and GradScaler write for the same thing. Defaults are Hugging Face's unless the
// help line says why not.
#include "tools/cli/flag_words.h"

namespace amp::cli {

std::vector<Flag> make_flag_table() {
  std::vector<Flag> table;
  const auto add = [&](Group group, std::vector<Flag> flags) {
    for (Flag& f : flags) {
      f.group = group;
      table.push_back(std::move(f));
    }
  };
  add(Group::model, model_flags());
  add(Group::data, data_flags());
  add(Group::precision, precision_flags());
  add(Group::scaling, scaling_flags());
  add(Group::optimizer, optimizer_flags());
  add(Group::schedule, schedule_flags());
  add(Group::evaluation, evaluation_flags());
  add(Group::checkpoints, checkpoint_flags());
  add(Group::exporting, export_flags());
  add(Group::run, run_flags());
  return table;
}

}  // namespace amp::cli
