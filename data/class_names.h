// Class names of a model, indexed by class id, and LabelIndex, which finds the class that a label of the data denotes.
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
  // true: an id is the index of an output of the model's head, and a label may be such an id, written as a whole number
  bool of_model = false;

  size_t size() const { return names.size(); }
  bool empty() const { return names.empty(); }
  const std::string& operator[](size_t id) const { return names[id]; }
};

// Returns the number that a label denotes: "3", "03", "3.0", "-1", "LABEL_3" (Hugging Face's default names). Returns
// nullopt for other texts.
std::optional<int64_t> whole_number(std::string_view label);

// Sorts in natural order: numbers by value, digits within texts by value ("class2" before "class10"), everything else
// by bytes. This is a total order.
void sort_naturally(std::vector<std::string>& labels);

// Finds the class of a label. find() applies these rules in order:
//   1. the exact name
//   2. the only name that differs just in case and spaces ('_' and '-' between words count as spaces)
//   3. the name that denotes the same number; with two classes, "false" and "true" denote 0 and 1
//   4. a whole number that is a class id, for a trained head whose class names are not numbers
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
  int64_t ids_ = 0;   // a label that is a whole number below ids_ is an id; 0: no label is an id
  bool two_ = false;  // two classes: "false" and "true" mean 0 and 1
  std::unordered_map<std::string, int64_t> names_, spellings_;
  std::unordered_map<int64_t, int64_t> numbers_;
};

// Returns a sentence that lists the labels whose text differs from their class name, with the class of each. Returns ""
// if there are none.
std::string describe_matches(const std::vector<std::string>& labels, const ClassNames& classes);

// Formats the first `most` labels: "'a', 'b', 'c' and 9 more".
std::string some_of(const std::vector<std::string>& labels, size_t most = 8);

}  // namespace amp
