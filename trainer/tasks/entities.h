// Finds entities in tagged words (tags such as B-PER, I-PER, E-PER, S-PER, O) and counts them. The rules are those of
// conlleval, which seqeval follows in its default mode: an I- tag after O or after another type also begins an entity.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace amp {

struct Entity {
  std::string type;
  int64_t first = 0, last = 0;  // indices of the entity's first and last word
  auto operator<=>(const Entity&) const = default;
};

std::vector<Entity> find_entities(std::span<const std::string> tags);  // tags of one text

// Returns true if these are tags of entities: O, and types with the prefix B-, I-, E- or S-.
bool are_entity_tags(std::span<const std::string> names);

// Precision, recall and F1 over the entities of all texts together (micro average). An entity is right if its type,
// first and last word are.
class EntityScores {
 public:
  // The arguments are the tags of one text, one per word.
  void add(std::span<const std::string> predicted, std::span<const std::string> wanted);
  double precision() const;  // 0 if nothing was predicted
  double recall() const;
  double f1() const;

 private:
  int64_t both_ = 0, predicted_ = 0, wanted_ = 0;
};

}  // namespace amp
