// Flags that are the command line's own: files that it reads and writes, what it prints. All others are settings of the
// library (run/settings/).
#include "tools/cli/flags.h"

namespace amp::cli {

std::vector<OwnFlag> own_flags() {
  static const SettingValue text = std::string(), off = false;
  constexpr VerbSet all = in(Verb::train, Verb::eval, Verb::predict, Verb::check, Verb::plan, Verb::grad,
                             Verb::export_model, Verb::tokenize);
  return {
      {"val",
       in(Verb::eval, Verb::predict, Verb::grad),
       {.name = "inputs",
        .initial = text,
        .help = "Tensors named by graph input, and label where a loss is asked; predict: rows of text too.",
        .metavar = "FILE",
        .other_names = {"input"}},
       in(Verb::predict, Verb::grad)},
      {"precision_plan",
       in(Verb::plan),
       {.name = "calibrate",
        .initial = text,
        .help = "Measure on this training data which nodes can run in 16 bits, and find the cheapest plan that stays "
                "accurate.",
        .metavar = "FILE",
        .other_names = {"calibration_data", "d"}}},
      {"calibrate_rtol",
       in(Verb::plan),
       {.name = "format",
        .initial = std::string("auto"),
        .help = "What plan writes; auto: by the extension of --out (.json, .dot, .html), a table without it.",
        .choices = {"auto", "text", "json", "dot", "html"}}},
      {"calibrate_rtol",
       in(Verb::plan),
       {.name = "diff",
        .initial = text,
        .help = "Compare this plan with another one, or with what a model would get now: plan --diff A.json "
                "B.json|MODEL.",
        .metavar = "PLAN.json"}},
      {"output_dir",
       in(Verb::predict, Verb::grad, Verb::export_model, Verb::check, Verb::plan),
       {.name = "out", .initial = text, .help = "File to write.", .metavar = "FILE", .other_names = {"output_path"}},
       in(Verb::predict, Verb::grad, Verb::export_model)},
      {"output_dir",
       in(Verb::grad),
       {.name = "hvp",
        .initial = text,
        .help = "Write H v instead of gradients: second derivatives times the tensors of this file, under the same "
                "names.",
        .metavar = "FILE"}},
      {"output_dir",
       in(Verb::grad),
       {.name = "dump_graph",
        .initial = text,
        .help = "Write the training graph too, as text: core operators, storage types, origins.",
        .metavar = "FILE"}},
      {"seed",
       in(Verb::train),
       {.name = "dry_run",
        .initial = off,
        .help = "Check model, plan and data, print the memory bill; trains, allocates and writes nothing."}},
      {"seed",
       in(Verb::train),
       {.name = "check_data",
        .initial = off,
        .help = "Read texts or images, tell rows, labels, lengths or sizes, duplicates and what is wrong; trains "
                "nothing."}},
      {"profile",
       in(Verb::check, Verb::plan, Verb::tokenize),
       {.name = "json",
        .initial = off,
        .help = "Write JSON: the table, or of each line ids, tokens, offsets and type ids."}},
      {"profile",
       in(Verb::tokenize),
       {.name = "pairs", .initial = off, .help = "Lines are two texts with a tab between them."}},
      {"profile",
       in(Verb::tokenize),
       {.name = "decode", .initial = off, .help = "Lines are token ids; write their text."}},
      {"profile",
       all,
       {.name = "config",
        .initial = text,
        .help = "JSON file of flags and values; a run.json too.",
        .metavar = "FILE",
        .other_names = {"c"},
        .recorded = false}},
      {"profile", all, {.name = "quiet", .initial = off, .help = "Only warnings and the result."}},
      {"profile", all, {.name = "verbose", .initial = off, .help = "More about what is decided and why."}},
  };
}

}  // namespace amp::cli
