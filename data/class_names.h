// Names of a model's classes by id, and the class that a label of the data means.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace amp {

struct ClassNames {
  ClassNames() = default;
  ClassNames(std::vector<std::string> all, bool model = false) : names(std::move(all)), of_model(model) {}
  ClassNames(std::initializer_list<std::string> all) : names(all) {}

  std::vector<std::string> names;
  bool of_model = false;  // ids are those of a trained head: a whole number as a label is an id

  size_t size() const { return names.size(); }
  bool empty() const { return names.empty(); }
  const std::string& operator[](size_t id) const { return names[id]; }
};

// The whole number that a label stands for: "3", "03", "3.0", "-1", "LABEL_3" (the hub's default names).
std::optional<int64_t> whole_number(std::string_view label);

// Sorts in the order that people expect: numbers by value, digits within texts too ("class2" before "class10"), all
// else by bytes. A total order.
void sort_naturally(std::vector<std::string>& labels);

// Finds labels among class names: as they are written; else by the number that both stand for, or, of a trained head
// whose names are no numbers, by id; else by the only name that differs in case and spaces alone ('_' and '-' between
// words count as such).
class LabelIndex {
 public:
  enum class By : uint8_t { name, number, spelling };
  struct Match {
    int64_t id = 0;
    By by = By::name;
  };

  explicit LabelIndex(const ClassNames& classes);
  std::optional<Match> find(std::string_view label) const;

 private:
  std::optional<int64_t> numbered(std::string_view label) const;

  static constexpr int64_t kAmbiguous = -1;
  int64_t ids_ = 0;   // numbers below it are ids; 0: numbers are no ids
  bool two_ = false;  // false and true are 0 and 1
  std::unordered_map<std::string, int64_t> names_, spellings_;
  std::unordered_map<int64_t, int64_t> numbers_;
};

// Says which labels are not written as their classes, and which class each of them means; empty when all are.
std::string describe_matches(const std::vector<std::string>& labels, const ClassNames& classes);

// "'a', 'b', 'c' and 9 more"
std::string some_of(const std::vector<std::string>& labels, size_t most = 8);

}  // namespace amp
