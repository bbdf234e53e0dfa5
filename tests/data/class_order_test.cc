// The order of classes: which rule decides, which inputs are refused, and how labels are matched to classes. Expected
// orders follow from the rules in data/class_order.h. The metadata has the formats that transformers, timm, ultralytics
// and scikit-learn write.
#include "data/class_order.h"

#include <catch2/catch_all.hpp>

#include "base/cat.h"
#include "data/label_list.h"
#include "tests/errors.h"

using namespace amp;
using amp::test::error_of;
using amp::test::expect_error;
using Catch::Matchers::ContainsSubstring;
using Texts = std::vector<std::string>;

namespace {

Texts numbered(int from, int to, const std::string& before = "", const std::string& after = "") {
  Texts out;
  for (int i = from; i <= to; ++i) out.push_back(cat(before, i, after));
  return out;
}

// Returns the order of a set of texts that is read from data, which is the order of their bytes.
Texts shuffled(Texts labels) {
  std::sort(labels.begin(), labels.end());
  return labels;
}

ClassEvidence evidence(Texts labels, int64_t head, std::vector<KnownClasses> known = {}) {
  ClassEvidence e;
  e.labels = shuffled(std::move(labels));
  e.head = head;
  e.known = std::move(known);
  return e;
}

// Returns the ids of labels in an order.
std::vector<int64_t> ids(const ClassOrder& order, const Texts& labels) {
  const LabelIndex index(order.classes);
  std::vector<int64_t> out;
  for (const std::string& l : labels) out.push_back(index.find(l).value_or(LabelIndex::Match{-1}).id);
  return out;
}

const std::vector<int64_t> kTwelve = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
const Texts kMnli = {"entailment", "neutral", "contradiction"};

}  // namespace

TEST_CASE("whole numbers in any form are ids of a trained head", "[classes]") {
  const std::vector<Texts> forms = {numbered(0, 11),
                                    numbered(0, 11, "", ".0"),
                                    numbered(0, 11, "LABEL_"),
                                    {"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11"}};
  for (const Texts& labels : forms) {
    const ClassOrder order = order_classes(evidence(labels, 12));
    CHECK(order.classes.names == labels);
    CHECK(ids(order, labels) == kTwelve);
    CHECK(order.warnings.empty());
  }
  const ClassOrder truth = order_classes(evidence({"True", "False"}, 2));
  CHECK(ids(truth, {"False", "True"}) == std::vector<int64_t>{0, 1});
  CHECK(truth.warnings.empty());
}

TEST_CASE("data with some of a head's classes keep its ids and its size", "[classes]") {
  for (const Texts& labels : {Texts{"3", "7", "11"}, {"2", "10"}, {"03", "07", "11"}, {"LABEL_3", "LABEL_7"}}) {
    const ClassOrder order = order_classes(evidence(labels, 12));
    REQUIRE(order.classes.size() == 12);
    for (const std::string& l : labels) CHECK(ids(order, {l})[0] == *whole_number(l));
    CHECK_THAT(order.notes.at(0), ContainsSubstring("of the head's 12 classes") && ContainsSubstring("`num_labels`"));
  }
  const ClassOrder named = order_classes(evidence({"neutral", "contradiction"}, 3, {{"config.json", kMnli}}));
  CHECK(ids(named, {"neutral", "contradiction"}) == std::vector<int64_t>{1, 2});
  CHECK(named.classes.names == kMnli);
}

TEST_CASE("names of the model decide, by precedence, and match by number, case and spaces", "[classes]") {
  const KnownClasses config{"id2label of 'config.json'", kMnli},
      own{"metadata", {"neutral", "contradiction", "entailment"}};
  CHECK(ids(order_classes(evidence(kMnli, 3, {config})), kMnli) == std::vector<int64_t>{0, 1, 2});
  CHECK(ids(order_classes(evidence(kMnli, 3, {own, config})), kMnli) == std::vector<int64_t>{2, 0, 1});
  const ClassOrder upper = order_classes(
      evidence({" negative", "Positive", "neutral"}, 3, {{"id2label", {"NEGATIVE", "POSITIVE", "NEUTRAL"}}}));
  CHECK(ids(upper, {" negative", "Positive", "neutral"}) == std::vector<int64_t>{0, 1, 2});
  CHECK_THAT(upper.notes.at(0), ContainsSubstring("by spelling") && ContainsSubstring("' negative' is 'NEGATIVE'"));
  const ClassOrder by_id = order_classes(evidence({"0", "1", "2"}, 3, {config}));
  CHECK(ids(by_id, {"0", "1", "2"}) == std::vector<int64_t>{0, 1, 2});
  CHECK(by_id.classes.names == kMnli);
  CHECK_THAT(by_id.notes.at(0), ContainsSubstring("by number") && ContainsSubstring("'2' is 'contradiction'"));
  CHECK(ids(order_classes(evidence({"not entailment", "entailment"}, 2, {{"c", {"entailment", "not_entailment"}}})),
            {"not entailment", "entailment"}) == std::vector<int64_t>{1, 0});
}

TEST_CASE("spellings that could mean two classes, or other things, are not matched", "[classes]") {
  const LabelIndex cases(ClassNames({"us", "US", "uk"}, true));
  CHECK(cases.find("us")->id == 0);
  CHECK(cases.find("US")->id == 1);
  CHECK_FALSE(cases.find("Us"));
  CHECK(cases.find("UK")->by == LabelIndex::By::spelling);
  const LabelIndex grades(ClassNames({"A", "B", "1"}, true));
  CHECK_FALSE(grades.find("A-"));
  CHECK_FALSE(grades.find("-1"));
  CHECK_FALSE(grades.find("0"));  // one class name is a number, so numbers are not ids
  const LabelIndex fresh(ClassNames{"neg", "pos"});
  CHECK_FALSE(fresh.find("1"));  // the names are not those of a trained head, so a number is not an id
  CHECK_FALSE(LabelIndex(ClassNames({"a", "b", "c"}, true)).find("true"));
}

TEST_CASE("labels counted from one", "[classes]") {
  const ClassOrder all = order_classes(evidence(numbered(1, 12), 12));
  CHECK(ids(all, numbered(1, 12)) == kTwelve);
  CHECK_THAT(all.warnings.at(0), ContainsSubstring("W_CLASS_ORDER") && ContainsSubstring("`labels`"));
  CHECK(ids(order_classes(evidence({"LABEL_1", "LABEL_2"}, 2)), {"LABEL_1", "LABEL_2"}) == std::vector<int64_t>{0, 1});
  expect_error(
      "E_LABELS", "from 3 to 12 without all of 1 to 12",
      [] {
        order_classes(evidence({"3", "12"}, 12));
      },
      Exit::usage);
  ClassEvidence said = evidence({"3", "12"}, 12);
  said.asked = numbered(1, 12);
  CHECK(ids(order_classes(said), {"3", "12"}) == std::vector<int64_t>{2, 11});
}

TEST_CASE("`labels` comes first, and must fit the head", "[classes]") {
  ClassEvidence e = evidence({"a", "b", "c"}, 3, {{"config.json", {"a", "b", "c"}}});
  e.asked = {"c", "a", "b"};
  CHECK(ids(order_classes(e), {"a", "b", "c"}) == std::vector<int64_t>{1, 2, 0});
  CHECK(order_classes(e).source == "`labels`");
  e.head = 4;
  expect_error(
      "E_LABELS", "names 3 classes, the head has 4", [&] { order_classes(e); }, Exit::usage);
  e.head = 0;
  e.asked = {"a", "a"};
  expect_error(
      "E_LABELS", "twice", [&] { order_classes(e); }, Exit::usage);
}

TEST_CASE("a trained head without names", "[classes]") {
  const ClassOrder guess = order_classes(evidence({"pos", "neg"}, 2));
  CHECK(guess.classes.names == Texts{"neg", "pos"});
  CHECK_THAT(guess.warnings.at(0), ContainsSubstring("W_CLASS_ORDER"));
  ClassEvidence strict = evidence({"pos", "neg"}, 2);
  strict.may_guess = false;
  expect_error(
      "E_LABELS", "the model names no classes", [&] { order_classes(strict); }, Exit::usage);
  const Error other = error_of([] { order_classes(evidence({"a", "b", "c"}, 12)); });
  CHECK(other.id() == "E_NUM_LABELS");
  CHECK_THAT(other.fact(), ContainsSubstring("12 classes without names") && ContainsSubstring("'a', 'b', 'c'"));
  CHECK_THAT(other.hint(), ContainsSubstring("`num_labels` 3") && ContainsSubstring("`labels`"));
  // the hub's default names (LABEL_0, ...) carry no information
  CHECK(order_classes(evidence({"pos", "neg"}, 2, {{"id2label", numbered(0, 1, "LABEL_")}})).warnings.size() == 1);
  CHECK(order_classes(evidence({}, 3)).classes.names == Texts{"0", "1", "2"});
  ClassEvidence sizeless = evidence({"2", "4"}, 0);  // a model with an unknown number of outputs
  sizeless.may_guess = false;
  CHECK(ids(order_classes(sizeless), {"2", "4"}) == std::vector<int64_t>{2, 4});
  sizeless.labels = {"x", "y"};
  expect_error(
      "E_LABELS", "'x', 'y'", [&] { order_classes(sizeless); }, Exit::usage);
}

TEST_CASE("names for another number of classes are not guessed from", "[classes]") {
  const std::vector<KnownClasses> two = {{"id2label of 'config.json'", {"neg", "pos"}}};
  expect_error(
      "E_LABELS", "id2label of 'config.json' has 2 names, the model's head has 3 classes",
      [&] {
        order_classes(evidence({"neg", "pos", "neutral"}, 3, two));
      },
      Exit::usage);
  const ClassOrder numbers = order_classes(evidence({"0", "1", "2"}, 3, two));
  CHECK(numbers.classes.names == Texts{"0", "1", "2"});
  CHECK_THAT(numbers.notes.at(0), ContainsSubstring("not used"));
  const Error none = error_of([&] { order_classes(evidence({"daisy", "rose"}, 2, two)); });
  CHECK(none.id() == "E_NUM_LABELS");
  CHECK_THAT(none.fact(), ContainsSubstring("'daisy', 'rose'") && ContainsSubstring("'neg', 'pos'"));
}

TEST_CASE("new heads take the data's labels in natural order", "[classes]") {
  const std::vector<KnownClasses> old = {{"id2label", {"pos", "neg"}}};
  const ClassOrder fresh = order_classes(evidence({"neg", "pos"}, 0, old));
  CHECK(fresh.classes.names == Texts{"neg", "pos"});
  CHECK_FALSE(fresh.classes.of_model);
  CHECK(order_classes(evidence({"class10", "class9", "class1", "Class2"}, 0)).classes.names ==
        Texts{"Class2", "class1", "class9", "class10"});
  CHECK(order_classes(evidence({"10", "-1", "2", "2.5"}, 0)).classes.names == Texts{"-1", "2", "2.5", "10"});
  ClassEvidence sized = evidence({"3", "7"}, 0);
  sized.new_size = 12;
  CHECK(order_classes(sized).classes.names == numbered(0, 11));
  sized.labels = {"x", "y"};
  sized.new_size = 3;
  CHECK(order_classes(sized).classes.names == Texts{"x", "y", "LABEL_2"});
  ClassEvidence cifar = evidence({}, 0);
  cifar.labels = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  cifar.numbered = true;
  std::swap(cifar.labels[0], cifar.labels[9]);
  CHECK(order_classes(cifar).classes.names == cifar.labels);
}

TEST_CASE("classes of the same name are told apart; a run that goes on keeps its order", "[classes]") {
  const ClassOrder cranes = order_classes(evidence({"kite"}, 3, {{"id2label", {"crane", "kite", "crane"}}}));
  CHECK(cranes.classes.names == Texts{"crane", "kite", "crane (2)"});
  ClassEvidence e = evidence({"0", "1", "10", "2"}, 4);
  e.resumed = {"of the run that goes on", {"0", "1", "10", "2"}};
  CHECK(ids(order_classes(e), {"10", "2"}) == std::vector<int64_t>{2, 3});
}

TEST_CASE("an order is told in a line", "[classes]") {
  CHECK(describe(order_classes(evidence(numbered(0, 11), 12))) == "12, whole numbers are ids: 0 to 11");
  CHECK(describe(order_classes(evidence(kMnli, 3, {{"id2label of 'config.json'", kMnli}}))) ==
        "3, id2label of 'config.json': 0=entailment, 1=neutral, 2=contradiction");
  CHECK(describe(order_classes(evidence(numbered(0, 999, "c"), 1000, {{"names", numbered(0, 999, "c")}}))) ==
        "1000, names: 0=c0, 1=c1, 2=c2, 3=c3, 4=c4, 5=c5, 6=c6, ..., 999=c999");
}

TEST_CASE("lists of names as exporters write them", "[classes]") {
  for (const char* text :
       {R"(["neg","pos"])", R"({"0":"neg","1":"pos"})", R"({"1":"pos","0":"neg"})", R"({"neg":0,"pos":1})",
        "{0: 'neg', 1: 'pos'}", "['neg', 'pos']", "('neg', \"pos\")", "{'pos': 1, 'neg': 0}", "['neg', 'pos',]"}) {
    INFO(text);
    CHECK(parse_label_literal(text) == Texts{"neg", "pos"});
  }
  CHECK(parse_label_literal("{0: \"driver's seat\", 1: 'a, b'}") == Texts{"driver's seat", "a, b"});
  CHECK(parse_label_literal("[1, 2, 3]") == Texts{"1", "2", "3"});
  for (const char* text : {"", "neg", "3", "[['a'], ['b']]", "{0: 'a', 2: 'b'}", "['a', 'b'", "{'a', 'b'}", "['a' 'b']",
                           "[None]", "{0: 'a', 0: 'b'}", "['a'] x"}) {
    INFO(text);
    CHECK(parse_label_literal(text).empty());
  }
  CHECK(parse_label_list("neg\r\npos\r\n\n") == Texts{"neg", "pos"});
  CHECK(parse_label_list("cat, dog,fish\n") == Texts{"cat", "dog", "fish"});
  CHECK(parse_label_list("tench, Tinca tinca\ngoldfish\n") == Texts{"tench, Tinca tinca", "goldfish"});
  CHECK(parse_label_list("a\n\nb\n").empty());
}
