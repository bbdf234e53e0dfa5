#include "tools/cli/flag_text.h"

#include <catch2/catch_test_macros.hpp>

#include "base/setting_name.h"

using namespace amp;
using cli::with_flags;

TEST_CASE("settings in messages are printed as flags") {
  CHECK(with_flags("use a smaller `batch_size` with `gradient_accumulation_steps`") ==
        "use a smaller --batch_size with --gradient_accumulation_steps");
  CHECK(with_flags("`lr`") == "--lr");
  CHECK(with_flags("") == "");
  CHECK(with_flags("`lr` is `lr`'s") == "--lr is --lr's");
}

TEST_CASE("other text in backquotes stays: verbs, commands, unknown names, an open quote") {
  for (const char* text : {"`check` lists them", "`export RUN --out FILE` writes them", "`no_such_setting`", "``",
                           "`lr", "`lr is open", "`bert.`"}) {
    CAPTURE(text);
    CHECK(with_flags(text) == text);
  }
}

TEST_CASE("an error's fact, places and hint name flags") {
  const Error e = with_flags(Error(Exit::usage, "E_X", "`lr` is 0", "give `lr`").at("in `config`"));
  CHECK(e.fact() == "--lr is 0");
  CHECK(e.hint() == "give --lr");
  CHECK(e.where() == std::vector<std::string>{"in --config"});
  CHECK(e.exit() == Exit::usage);
}

TEST_CASE("a key within a setting follows the quoted name") {
  CHECK(setting_name("lr") == "`lr`");
  CHECK(with_flags(setting_name("optim_args dampening")) == "--optim_args dampening");
}
