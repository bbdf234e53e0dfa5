// Conversion of flags to a RunSpec, and which settings must be equal when a run is resumed.
#include "run/spec/spec.h"

#include <catch2/catch_all.hpp>
#include <string>
#include <vector>

#include "run/prepare/input_files.h"
#include "run/settings/settings.h"
#include "tests/cli/cli_helper.h"
#include "tools/spec_of.h"

using namespace amp;

TEST_CASE("what a resumed run must have in common is every setting that is not marked free", "[spec]") {
  const auto fixed = [](std::vector<std::string> words) {
    RunSpec spec = spec_of(train(std::move(words)));
    spec.model.model = spec.data.train = "";  // files are compared by their contents
    return resume_record(spec);
  };
  const auto plain = fixed({});
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--adam_beta1", "0.8"},
                                                                                     {"--clip_mode", "inf"},
                                                                                     {"--decay_exclude", "none"},
                                                                                     {"--lower_case", "false"},
                                                                                     {"--label_smoothing", "0.1"},
                                                                                     {"--text_columns", "a"},
                                                                                     {"--seed", "7"}}) {
    INFO(words[0]);
    const auto changed = fixed(words);
    CHECK(changed != plain);
    CHECK(changed.at(words[0].substr(2)) == words[1]);
  }
  CHECK(fixed({"--threads", "1", "--logging_steps", "3", "--save_steps", "5", "--resume", "auto", "--quiet", "true",
               "--output_dir", "elsewhere", "--export_precision", "fp16"}) == plain);
  CHECK(plain.count("train") == 0);
  CHECK(setting_named("train").resume == Resume::same_content);
}

TEST_CASE("the defaults of the flags are those of a RunSpec", "[spec]") {
  const cli::Options options = train({});
  RunSpec spec = spec_of(options);
  CHECK(spec.model.model == "m.onnx");
  CHECK(spec.data.train == "t.csv");
  spec.model.model = spec.data.train = "";
  for (const Setting& s : settings()) {
    if (options.source(s.name) == cli::Source::derived) continue;  // such as eval_batch_size, which follows batch_size
    INFO(s.name);
    CHECK(value_text(value_of(spec, s)) == value_text(value_of(RunSpec{}, s)));
  }
}
