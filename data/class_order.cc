// Implements the rules of class_order.h as a pure function from ClassEvidence to ClassOrder. Each rule is one member
// function of Decision, which applies the first rule that fits. Notes and warnings record every assumption that a rule
// makes.
#include "data/class_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr const char* kDataSource = "natural order of the data's labels";
constexpr const char* kNumberSource = "whole numbers are ids";

using Numbers = std::map<int64_t, std::string>;  // number -> first label with it

// Maps the number of each label to the label. Returns nullopt if a label is not a whole number.
std::optional<Numbers> numbers_of(const std::vector<std::string>& labels, int64_t classes) {
  Numbers out;
  for (const std::string& label : labels) {
    std::optional<int64_t> number = whole_number(label);
    if (!number && classes == 2) {
      const ClassNames truth{"false", "true"};
      if (const auto match = LabelIndex(truth).find(label)) number = match->id;
    }
    if (!number) return std::nullopt;
    out.emplace(*number, label);
  }
  return out.empty() ? std::nullopt : std::optional(out);
}

// Formats a number in the form of the data's labels: "LABEL_3", "03", "3.0".
std::string like(const std::string& label, int64_t number) {
  std::string digits = label;
  const bool hub = digits.starts_with("LABEL_");
  if (hub) digits = digits.substr(6);
  const size_t dot = digits.find('.');
  const std::string fraction = dot == std::string::npos ? "" : digits.substr(dot);
  digits = digits.substr(0, dot);
  std::string out = std::to_string(number);
  const bool padded = digits.size() > 1 && digits[0] == '0';
  while (padded && out.size() < digits.size()) out = "0" + out;
  return (hub ? "LABEL_" : "") + out + fraction;
}

std::vector<std::string> numbered_names(const Numbers& numbers, int64_t from, int64_t size) {
  std::vector<std::string> names;
  for (int64_t n = from; n < from + size; ++n) {
    const auto at = numbers.find(n);
    names.push_back(at != numbers.end() ? at->second
                    : numbers.empty()   ? std::to_string(n)
                    : size == 2         ? std::to_string(n)
                                        : like(numbers.begin()->second, n));
  }
  return names;
}

// Returns whether the names are Hugging Face's placeholders (LABEL_0, LABEL_1, ...).
bool nameless(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != cat("LABEL_", i)) return false;
  }
  return true;
}

// Makes names unique: "crane (517)" for the second of two classes named crane.
std::vector<std::string> unique(std::vector<std::string> names) {
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) names[i] = cat(names[i], " (", i, ")");
  }
  return names;
}

class Decision {
 public:
  explicit Decision(const ClassEvidence& e) : e_(e), labels_(e.labels) {
    if (!e.numbered) sort_naturally(labels_);
  }

  ClassOrder decide() {
    if (!e_.asked.empty()) {
      asked();
    } else if (!e_.resumed.names.empty()) {
      take(e_.resumed.names, e_.resumed.source, true);
    } else if (e_.head > 0 && !e_.new_head) {
      trained_head();
    } else if (e_.head > 0) {
      fresh_head(e_.head, "new weights");
    } else if (e_.may_guess) {
      fresh_head(e_.new_size, "new head");
    } else {
      unknown_head();
    }
    const std::string matches = describe_matches(labels_, out_.classes);
    if (!matches.empty()) out_.notes.push_back(matches);
    return std::move(out_);
  }

 private:
  void take(std::vector<std::string> names, std::string source, bool of_model) {
    out_.classes = ClassNames(unique(std::move(names)), of_model);
    out_.source = std::move(source);
  }

  size_t unknown() const {
    const LabelIndex index(out_.classes);
    return static_cast<size_t>(
        std::count_if(labels_.begin(), labels_.end(), [&](const std::string& l) { return !index.find(l); }));
  }

  void asked() {
    const int64_t size = e_.head > 0 ? e_.head : e_.new_size, names = static_cast<int64_t>(e_.asked.size());
    std::set<std::string> once(e_.asked.begin(), e_.asked.end());
    if (once.size() < e_.asked.size())
      fail(Exit::usage, "E_LABELS", cat("`labels` names a class twice: ", some_of(e_.asked)), "name each class once");
    if (size > 0 && names != size)
      fail(Exit::usage, "E_LABELS", cat("`labels` names ", names, " classes, the head has ", size),
           "name every class of the head, in the order of its outputs");
    take(e_.asked, "`labels`", true);
  }

  // Returns the first list of known names that has one name per output of the head. Stores the first list of another
  // length in misfit_, for messages.
  const KnownClasses* fitting() {
    for (const KnownClasses& known : e_.known) {
      if (static_cast<int64_t>(known.names.size()) != e_.head) {
        misfit_ = misfit_ ? misfit_ : &known;
      } else if (!nameless(known.names)) {
        return &known;
      }
    }
    return nullptr;
  }

  std::string misfit() const {
    return cat(misfit_->source, " has ", misfit_->names.size(), " names, the model's head has ", e_.head, " classes");
  }

  void trained_head() {
    if (const KnownClasses* known = fitting()) {
      take(known->names, known->source, true);
      if (!labels_.empty() && unknown() == labels_.size()) other_classes();
      return note_missing_classes(false);
    }
    const std::optional<Numbers> numbers = numbers_of(labels_, e_.head);
    if (misfit_ && (numbers || labels_.empty())) out_.notes.push_back(misfit() + ": the names are not used");
    if (labels_.empty()) return take(numbered_names({}, 0, e_.head), kNumberSource, true);
    if (numbers && by_number(*numbers)) return;
    if (misfit_)
      fail(Exit::usage, "E_LABELS", misfit() + ": which output is which class is not known",
           cat(name_them(), "; `num_labels` N (of another size) makes a new head"));
    if (!e_.may_guess)
      fail(Exit::usage, "E_LABELS",
           cat("the model names no classes, and the data's labels are texts: ", some_of(labels_)), name_them());
    const auto count = static_cast<int64_t>(labels_.size());
    if (count != e_.head) other_number();
    require_order();
    take(labels_, e_.numbered ? "order of the data's own files" : kDataSource, true);
    if (!e_.numbered)
      out_.warnings.push_back(
          "W_CLASS_ORDER: neither the model nor a config.json beside it says which output is which class: the data's "
          "labels are taken in natural order; if the head was trained on another order, give it with `labels`");
  }

  // Assigns the classes of a model whose number of classes is not known: the model's names, or whole numbers as ids.
  // Throws E_LABELS if the labels are texts.
  void unknown_head() {
    if (!e_.known.empty()) return take(e_.known.front().names, e_.known.front().source, true);
    const std::optional<Numbers> numbers = numbers_of(labels_, 0);
    if (numbers && numbers->begin()->first >= 0)
      return take(numbered_names(*numbers, 0, numbers->rbegin()->first + 1), kNumberSource, true);
    if (!labels_.empty())
      fail(Exit::usage, "E_LABELS",
           cat("the model names no classes, and the data's labels are texts: ", some_of(labels_)),
           "name the classes in the order of the model's outputs: `labels` a,b,c, or a file with a name a line");
  }

  // Uses labels that are whole numbers as class ids if the head has an output for each of them. For a head of N
  // outputs, uses the numbers 1 to N as ids 0 to N - 1. Returns false if neither is possible.
  bool by_number(const Numbers& numbers) {
    const int64_t low = numbers.begin()->first, high = numbers.rbegin()->first, n = e_.head;
    if (low >= 0 && high < n) {
      take(numbered_names(numbers, 0, n), kNumberSource, true);
      note_missing_classes(true);
      return true;
    }
    if (low < 1 || high != n) return false;
    if (static_cast<int64_t>(numbers.size()) < n)
      fail(Exit::usage, "E_LABELS",
           cat("the head has ", n, " classes, 0 to ", n - 1, " by number, and the data's labels go from ", low, " to ",
               high, " without all of 1 to ", n),
           cat("if they count from one, name every class: `labels` 1,2,3 up to ", n,
               "; if the head is for other classes, `num_labels` N makes a new one"));
    take(numbered_names(numbers, 1, n), "whole numbers counted from one", true);
    out_.warnings.push_back(cat("W_CLASS_ORDER: the labels are all of 1 to ", n, " and the head has ", n,
                                " classes: label 1 is taken as the first output (`labels` gives another order)"));
    return true;
  }

  // Adds a note if the data lack some of the head's classes.
  void note_missing_classes(bool nameless_head) {
    std::set<int64_t> seen;
    const LabelIndex index(out_.classes);
    for (const std::string& label : labels_) {
      if (const auto match = index.find(label)) seen.insert(match->id);
    }
    const size_t all = out_.classes.size();
    if (labels_.empty() || seen.size() == all) return;
    out_.notes.push_back(
        cat("the data contain ", seen.size(), " of the head's ", all, " classes",
            nameless_head ? cat("; `num_labels` ", seen.size(), " makes a new head with only these") : std::string()));
  }

  [[noreturn]] void other_classes() const {
    const bool as_many = static_cast<int64_t>(labels_.size()) == e_.head;
    fail(Exit::usage, "E_NUM_LABELS",
         cat("the data's labels are none of the head's ", out_.classes.size(), " classes: ", some_of(labels_),
             "; the head has ", some_of(out_.classes.names), " (", out_.source, ")"),
         as_many ? cat("`labels` ", join(labels_, ","),
                       " trains the head that is there under these names, in the order "
                       "of its outputs; `head` classification adds a new one on top")
                 : cat("`num_labels` ", labels_.size(),
                       " replaces the head by a new one; if the head does have the "
                       "data's classes, `labels` names them in the order of its outputs"));
  }

  [[noreturn]] void other_number() const {
    fail(Exit::usage, "E_NUM_LABELS",
         cat("the model's head has ", e_.head, " classes without names, the data have ", labels_.size(),
             " labels: ", some_of(labels_)),
         cat("`num_labels` ", labels_.size(),
             " replaces the head by a new one; `labels` names the classes of the "
             "head that is there, in the order of its outputs"));
  }

  // Throws E_LABELS if the classes have an order (ClassEvidence::ordered) that the labels do not show. Numbers from 0
  // on show the right order; for names, the user must give the order.
  void require_order() const {
    if (!e_.ordered || e_.numbered) return;
    const std::optional<Numbers> numbers = numbers_of(labels_, 0);
    if (numbers && numbers->begin()->first >= 0) return;
    fail(Exit::usage, "E_LABELS", cat("the classes have an order that the labels do not show: ", some_of(labels_)),
         "name them from the lowest to the highest: `labels` low,middle,high");
  }

  std::string name_them() const {
    return cat("name the ", e_.head,
               " classes in the order of the model's outputs: `labels` a,b,c, or a file with a "
               "name a line");
  }

  // Assigns the classes of a head with new weights. size: number of outputs; 0: one per label.
  void fresh_head(int64_t size, const std::string& what) {
    if (size > 0 && labels_.empty()) return take(numbered_names({}, 0, size), cat(kNumberSource, ", ", what), true);
    const std::optional<Numbers> numbers = size > 0 ? numbers_of(labels_, size) : std::nullopt;
    if (numbers && numbers->begin()->first >= 0 && numbers->rbegin()->first < size)
      return take(numbered_names(*numbers, 0, size), cat(kNumberSource, ", ", what), true);
    if (e_.head > 0 && static_cast<int64_t>(labels_.size()) != e_.head &&
        !(e_.spare_outputs && static_cast<int64_t>(labels_.size()) < e_.head))
      other_number();
    require_order();
    std::vector<std::string> names = labels_;
    for (auto i = static_cast<int64_t>(names.size()); i < size; ++i) names.push_back(cat("LABEL_", i));
    take(std::move(names), cat(e_.numbered ? "order of the data's own files" : kDataSource, ", ", what), false);
  }

  const ClassEvidence& e_;
  std::vector<std::string> labels_;
  const KnownClasses* misfit_ = nullptr;
  ClassOrder out_;
};

}  // namespace

ClassOrder order_classes(const ClassEvidence& evidence) { return Decision(evidence).decide(); }

std::string describe(const ClassOrder& order) {
  constexpr size_t kShown = 8;
  const ClassNames& c = order.classes;
  const std::string begin = cat(c.size(), ", ", printable(order.source), ": ");
  bool plain = c.size() > 1;
  for (size_t i = 0; i < c.size(); ++i) plain = plain && c[i] == std::to_string(i);
  if (plain) return cat(begin, "0 to ", c.size() - 1);
  std::vector<std::string> shown;
  for (size_t i = 0; i < c.size(); ++i) {
    if (c.size() > kShown + 1 && i >= kShown - 1 && i + 1 < c.size()) continue;
    if (c.size() > kShown + 1 && i + 1 == c.size()) shown.emplace_back("...");
    shown.push_back(cat(i, "=", printable(c[i])));
  }
  return begin + join(shown, ", ");
}

}  // namespace amp
