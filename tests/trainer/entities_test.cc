// Tests entities against seqeval (tests/data/trainer/entities.json, made by tests/data/data/make_tagged_golden.py).
#include "trainer/tasks/entities.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"

using namespace amp;
using Strings = std::vector<std::string>;

TEST_CASE("entities and their scores are seqeval's") {
  std::ifstream in(test::test_data("trainer/entities.json"));
  const auto cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() == 80);
  for (const auto& c : cases) {
    EntityScores scores;
    for (size_t i = 0; i < c["wanted"].size(); ++i) {
      const auto wanted = c["wanted"][i].get<Strings>();
      INFO(c["wanted"][i].dump());
      std::vector<Entity> want;
      for (const auto& e : c["entities"][i])
        want.push_back({e[0].get<std::string>(), e[1].get<int64_t>(), e[2].get<int64_t>()});
      CHECK(find_entities(wanted) == want);
      scores.add(c["predicted"][i].get<Strings>(), wanted);
    }
    CHECK(scores.precision() == Catch::Approx(c["scores"][0].get<double>()).epsilon(1e-12));
    CHECK(scores.recall() == Catch::Approx(c["scores"][1].get<double>()).epsilon(1e-12));
    CHECK(scores.f1() == Catch::Approx(c["scores"][2].get<double>()).epsilon(1e-12));
  }
  CHECK(EntityScores().f1() == 0);
}

TEST_CASE("which names are tags of entities") {
  CHECK(are_entity_tags(Strings{"B-PER", "I-PER", "O"}));
  CHECK(are_entity_tags(Strings{"E-creative-work", "S-x"}));
  CHECK_FALSE(are_entity_tags(Strings{"NN", "O"}));
  CHECK_FALSE(are_entity_tags(Strings{"B-", "O"}));
  CHECK_FALSE(are_entity_tags(Strings{}));
}
