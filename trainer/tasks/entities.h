// Entities in tagged words: found in tags such as B-PER, I-PER, E-PER, S-PER, O, and counted. The rules are those of
// conlleval, which seqeval follows in its default mode: an entity begins also where an I- follows O or another type.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace amp {

struct Entity {
  std::string type;
  int64_t first = 0, last = 0;  // words
  auto operator<=>(const Entity&) const = default;
};

std::vector<Entity> find_entities(std::span<const std::string> tags);  // of one text

// Are these names of tags of entities: O, and B- I- E- S- before a type?
bool are_entity_tags(std::span<const std::string> names);

// Micro averages over all texts: an entity is right when type, first and last word are.
class EntityScores {
 public:
  void add(std::span<const std::string> predicted, std::span<const std::string> wanted);  // of one text, word by word
  double precision() const;  // 0 where nothing was predicted
  double recall() const;
  double f1() const;

 private:
  int64_t both_ = 0, predicted_ = 0, wanted_ = 0;
};

}  // namespace amp
