// The text of --help, and the last line of a failure.
#include "tools/cli/help.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <new>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tools/cli/error_line.h"

using namespace amp::cli;

// Returns the number of times that the help lists a flag.
static size_t count_of(std::string_view flag, const std::string& text) {
  size_t shown = 0;
  for (size_t at = text.find("\n  --"); at != std::string::npos; at = text.find("\n  --", at + 1)) {
    const size_t end = text.find_first_of(" \n", at + 5);
    shown += text.substr(at + 5, end - at - 5) == flag;
  }
  return shown;
}

TEST_CASE("the whole help shows each of the verb's flags once, the short help at most once, within 100 columns",
          "[cli]") {
  for (const VerbInfo& v : verbs()) {
    for (const bool all : {false, true}) {
      const std::string text = help_text(v.verb, all);
      for (const std::string& line : amp::split(text, '\n')) {
        INFO(line);
        CHECK(line.size() <= 100);
        CHECK(!line.ends_with(' '));
      }
      for (const Flag& f : flags()) {
        INFO(f.name);
        const size_t accepted = has(f.verbs, v.verb) ? 1 : 0;
        if (all || (accepted == 1 && (f.common || has(f.required, v.verb)))) {
          CHECK(count_of(f.name, text) == accepted);
        } else {
          CHECK(count_of(f.name, text) <= accepted);
        }
      }
    }
  }
}

TEST_CASE("the short help of every verb and of the program fits two screens of 50 lines", "[cli]") {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(lines(help_text(std::nullopt, false)) <= 100);
  for (const VerbInfo& v : verbs()) {
    INFO(v.name);
    CHECK(lines(help_text(v.verb, false)) <= 100);
  }
}

TEST_CASE("help groups, defaults, requirements, other spellings", "[cli]") {
  const std::string text = help_text(Verb::train, false), whole = help_text(std::nullopt, true);
  const std::string unwrapped = std::regex_replace(whole, std::regex(" *\n +"), " ");
  CHECK(unwrapped.find("sgd, adam, adamw") != std::string::npos);
  for (const char* part : {"Usage: onnx-amp-finetune", "[5e-5]", "[adamw]", "[required]", "ONNX_AMP_<FLAG>"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
    CHECK(whole.find(part) != std::string::npos);
  }
  for (const char* part : {"\nLoss scaling\n", "tokenize --tokenizer", "bench MODEL.onnx", "--learning_rate"}) {
    INFO(part);
    CHECK(text.find(part) == std::string::npos);
    CHECK(whole.find(part) != std::string::npos);
  }
  CHECK(text.find("--help_all shows all flags") != std::string::npos);
  CHECK(help_text(std::nullopt, false).find("train --help shows the common flags") != std::string::npos);
  CHECK(help_text(Verb::eval, false).find("eval --help_all") != std::string::npos);
  CHECK(help_text(Verb::tokenize, false).find("Optimizer") == std::string::npos);
  CHECK(version_text().starts_with("onnx-amp-finetune "));
}

static nlohmann::json last_line(const std::string& text) {
  REQUIRE(text.ends_with('\n'));
  const auto lines = amp::split(text.substr(0, text.size() - 1), '\n');
  return nlohmann::json::parse(lines.back());
}

TEST_CASE("a failure ends in one JSON line", "[cli]") {
  amp::Error e(amp::Exit::data, "E_DATA_COLUMN", "no column 'labl\xff'", "columns: text,\nlabel");
  e.at("in t.csv").at("while reading --train");
  std::ostringstream out;
  print_error_line(out, e);
  CHECK(out.str().starts_with("error: no column"));
  const auto line = last_line(out.str());
  CHECK(line["id"] == "E_DATA_COLUMN");
  CHECK(line["exit"] == 5);
  CHECK(line["where"] == "in t.csv; while reading --train");
  CHECK(line["hint"] == "columns: text,\nlabel");
}

TEST_CASE("every way to fail has its exit code", "[cli]") {
  const auto run = [](auto body) {
    std::ostringstream err;
    const int code = guarded(err, body);
    return std::pair(code, code == 0 ? std::string() : last_line(err.str())["id"].template get<std::string>());
  };
  CHECK(run([] { return 0; }).first == 0);
  CHECK(run([]() -> int { amp::fail(amp::Exit::gate, "E_GATE", "missed"); }) == std::pair(12, std::string("E_GATE")));
  CHECK(run([]() -> int { throw std::bad_alloc(); }) == std::pair(9, std::string("E_OOM")));
  CHECK(run([]() -> int {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        }) == std::pair(9, std::string("E_THREADS")));
  const auto no_memory = std::make_error_code(std::errc::not_enough_memory);
  CHECK(run([&]() -> int { throw std::system_error(no_memory); }) == std::pair(9, std::string("E_OOM")));
  CHECK(run([]() -> int { throw std::runtime_error("x"); }) == std::pair(1, std::string("E_INTERNAL")));
}
