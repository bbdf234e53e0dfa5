// docs/losses.md agrees with the registered losses.
#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "tests/support.h"
#include "trainer/losses/loss.h"

using namespace amp;

namespace {

std::string parameters_of(const LossRule& r) {
  std::vector<std::string> texts;
  for (const LossParameter& p : r.parameters) {
    std::string text = cat("`", p.name, "`");
    if (p.form != ParameterForm::list) text += cat(" ", p.preset);
    if (*p.note) text += cat(" (", p.note, ")");
    texts.push_back(text);
  }
  return join(texts, ", ");
}

// Returns the table of kinds, one line per form of output and label.
std::string table() {
  std::string out = "| kind | output and label | loss of an item | N | parameters |\n|---|---|---|---|---|\n";
  for (const LossRule& r : loss_rules()) {
    std::string name = cat("`", r.name, "`"), parameters = parameters_of(r);
    std::vector<std::string> synonyms;
    for (const std::string& s : r.synonyms) synonyms.push_back(cat("`", s, "`"));
    if (!synonyms.empty()) name += cat(" (", join(synonyms, ", "), ")");
    for (const LossDoc& d : r.doc) {
      out += cat("| ", name, " | ", d.takes, " | ", d.item, " | ", d.items, " | ", parameters, " |\n");
      name = parameters = "";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("docs/losses.md has the table of losses", "[docs]") {
  const std::string path = test::source_root() + "/docs/losses.md";
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = text.find("| kind |"), end = text.find("\n\n", begin) + 1;
  REQUIRE(begin < end);
  const std::string want = table();
  if (std::getenv("UPDATE_DOCS")) {
    text.replace(begin, end - begin, want);
    std::ofstream(path) << text;
    return;
  }
  INFO("stale: UPDATE_DOCS=1 test_trainer \"[docs]\" writes it anew");
  CHECK(text.substr(begin, end - begin) == want);
}

TEST_CASE("every loss is documented, and its parameters have defaults in their range", "[docs]") {
  for (const LossRule& r : loss_rules()) {
    INFO(r.name);
    CHECK(!r.doc.empty());
    CHECK(r.min_outputs <= r.max_outputs);
    CHECK((r.default_outputs.empty() || r.default_outputs.size() == r.min_outputs));
    for (const LossParameter& p : r.parameters) {
      INFO(p.name);
      if (p.form == ParameterForm::list) continue;
      CHECK((p.above_low ? p.preset > p.low : p.preset >= p.low));
      CHECK(p.preset < p.high);
    }
    for (const std::string& s : r.synonyms) CHECK(kind_called(s) == r.name);
    if (*r.on_logits) CHECK_NOTHROW(loss_rule(r.on_logits));
  }
}

TEST_CASE("no two losses have a name or a synonym in common", "[losses]") {
  std::set<std::string> names;
  for (const LossRule& r : loss_rules()) {
    INFO(r.name);
    CHECK(names.insert(r.name).second);
    for (const std::string& s : r.synonyms) CHECK(names.insert(s).second);
  }
}
