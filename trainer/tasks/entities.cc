#include "trainer/tasks/entities.h"

#include <algorithm>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

struct Tag {
  char mark = 'O';
  std::string type;
};

// Splits a tag: "B-creative-work" is the mark B and the type "creative-work". "B" without a type gets the type "_".
Tag parse(const std::string& text) {
  Tag t;
  if (text.empty()) return t;
  t.mark = text[0];
  const size_t dash = text.find('-', 1);
  t.type = dash == std::string::npos ? text.substr(1) : text.substr(dash + 1);
  if (t.type.empty()) t.type = "_";
  return t;
}

bool one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

bool ends(const Tag& before, const Tag& now) {
  if (one_of(before.mark, "ES")) return true;
  if (one_of(before.mark, "BI") && one_of(now.mark, "BSO")) return true;
  return !one_of(before.mark, "O.") && before.type != now.type;
}

bool starts(const Tag& before, const Tag& now) {
  if (one_of(now.mark, "BS")) return true;
  if (one_of(before.mark, "ESO") && one_of(now.mark, "EI")) return true;
  return !one_of(now.mark, "O.") && before.type != now.type;
}

}  // namespace

std::vector<Entity> find_entities(std::span<const std::string> tags) {
  std::vector<Entity> out;
  Tag before;
  int64_t first = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const Tag now = i < tags.size() ? parse(tags[i]) : parse("O");
    const auto at = static_cast<int64_t>(i);
    if (ends(before, now)) out.push_back({before.type, first, at - 1});
    if (starts(before, now)) first = at;
    before = now;
  }
  return out;
}

bool are_entity_tags(std::span<const std::string> names) {
  return !names.empty() && std::all_of(names.begin(), names.end(), [](const std::string& n) {
    return n == "O" || (n.size() > 2 && one_of(n[0], "BIES") && n[1] == '-');
  });
}

void EntityScores::add(std::span<const std::string> predicted, std::span<const std::string> wanted) {
  const std::vector<Entity> p = find_entities(predicted), w = find_entities(wanted);
  predicted_ += static_cast<int64_t>(p.size());
  wanted_ += static_cast<int64_t>(w.size());
  for (const Entity& e : p) both_ += std::find(w.begin(), w.end(), e) != w.end();
}

double EntityScores::precision() const { return ratio(both_, predicted_); }
double EntityScores::recall() const { return ratio(both_, wanted_); }
double EntityScores::f1() const { return ratio(2 * both_, predicted_ + wanted_); }

}  // namespace amp
