// Completions and the manual page list what the parser accepts.
#include "tools/cli/completions.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error.h"
#include "base/text.h"
#include "tools/cli/options.h"

using namespace amp::cli;

TEST_CASE("completions hold every verb, flag and choice", "[cli]") {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string text = completion_text(shell);
    INFO(shell);
    for (const VerbInfo& v : verbs()) CHECK(text.find(v.name) != std::string::npos);
    for (const Flag& f : flags()) {
      INFO(f.name);
      const bool used = f.verbs != 0;
      CHECK((text.find(amp::cat(shell == "fish" ? "-l " : "--", f.name)) != std::string::npos) == used);
      for (const std::string_view choice : f.choices) CHECK(text.find(choice) != std::string::npos);
    }
  }
  CHECK_THROWS_AS(completion_text("tcsh"), amp::Error);
}

TEST_CASE("the manual page holds the help of every verb", "[cli]") {
  const std::string text = man_text();
  CHECK(text.starts_with(".TH ONNX\\-AMP\\-FINETUNE 1"));
  CHECK(text.find("\"\n.SH NAME\n") != std::string::npos);
  for (const Flag& f : flags()) {
    INFO(f.name);
    CHECK(text.find(amp::cat("\\-\\-", f.name)) != std::string::npos);
  }
  // In the manual page's format, a line that begins with a dot is a command.
  for (const std::string& line : amp::split(text, '\n')) {
    if (line.starts_with('.'))
      CHECK((line == ".nf" || line == ".fi" || line.starts_with(".SH ") || line.starts_with(".TH ")));
  }
}

TEST_CASE("the hidden flags of the installation parse", "[cli]") {
  const char* const completions[] = {"onnx-amp-finetune", "--print_completions", "zsh"};
  CHECK(parse_command_line(3, completions, nullptr).print == "zsh");
  const char* const manual[] = {"onnx-amp-finetune", "--print-man"};
  const Options o = parse_command_line(2, manual, nullptr);
  CHECK(o.verb == Verb::help);
  CHECK(o.print == "man");
}
