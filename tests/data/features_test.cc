// Features of tables against pandas and scikit-learn (tests/data/data/features): inferred kinds, the assignment of
// features to inputs, and errors.
#include "data/features/features.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/features/feature_dataset.h"
#include "data/features/guess.h"
#include "data/reader.h"
#include "data/subset.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;
using nlohmann::json;

namespace {

std::string tables(const std::string& name) { return test_data("data/features/" + name); }

const json& golden() {
  static const json all = json::parse(std::ifstream(tables("golden.json")));
  return all;
}

FeatureTable read(const std::string& name) {
  FeatureTable t(Table::read(tables(name)));
  t.join(parse_join(tables("store.csv") + ":Store"), Table::read(tables("store.csv")));
  t.add_parts("Date");
  return t;
}

FeatureSchema schema() {
  FeatureSchema s;
  s.categorical = golden().at("categorical").get<Names>();
  s.continuous = golden().at("continuous").get<Names>();
  s.dates = {"Date"};
  s.joins = {parse_join("store.csv:Store")};
  s.target = "Sales";
  return s;
}

Ints all_rows(const FeatureTable& t) {
  Ints rows(static_cast<size_t>(t.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

FeatureTable parsed(const std::string& text) { return FeatureTable(Table::parse(text, "t.csv", reader_named("csv"))); }

Features fit(const FeatureTable& t, const FeatureSchema& s) { return fit_features(t, s, all_rows(t), true); }

std::string codes_of(const FeatureValues& v, size_t column) {
  std::string out;
  for (const int64_t c : v.codes.at(column)) out += std::to_string(c);
  return out;
}

const InputSpec kCodes = {"x_cat", DType::i64, Dims{-1, 2}};

}  // namespace

TEST_CASE("codes are scikit-learn's OrdinalEncoder's, one higher, and 0 for unknown and missing", "[features]") {
  const FeatureTable train = read("sales.csv");
  const Features features = Features::parse(fit(train, schema()).json());  // in the form that is read from a model
  for (const std::string name : {"sales", "new"}) {
    const FeatureTable t = read(name + ".csv");
    const FeatureValues v = feature_values(t, features);
    const json& want = golden().at("codes").at(name);
    REQUIRE(v.codes.size() == want[0].size());
    for (size_t c = 0; c < v.codes.size(); ++c) {
      INFO(name << " " << features.categories[c].column);
      for (size_t r = 0; r < v.codes[c].size(); ++r) CHECK(v.codes[c][r] == want[r][c].get<int64_t>());
    }
    const json& missing = golden().at("missing").at(name);
    for (size_t c = 0; c < v.missing.size(); ++c) {
      for (size_t r = 0; r < v.missing[c].size(); ++r) CHECK(int{v.missing[c][r]} == missing[r][c].get<int>());
    }
    if (name == "sales") CHECK(v.unknown.empty());
    if (name == "new") {
      REQUIRE(v.unknown.size() == 2);  // columns Store and State; a missing store counts as missing, not as unknown
      CHECK(v.unknown[0].example == "99");
      CHECK(v.unknown[1].example == "Hessen");
      CHECK(v.unknown[1].where == tables("new.csv") + ":2:15");
    }
  }
}

TEST_CASE("numbers are scikit-learn's, filled and scaled by what the training data hold", "[features]") {
  const FeatureTable train = read("sales.csv");
  for (const auto& [fill, filling] : {std::pair{"median", Filling::median}, std::pair{"mean", Filling::mean}}) {
    for (const auto& [scale, scaling] :
         {std::pair{"standard", Scaling::standard}, std::pair{"quantiles", Scaling::quantiles},
          std::pair{"none", Scaling::none}}) {
      FeatureSchema s = schema();
      s.filling = filling;
      s.scaling = scaling;
      const Features features = Features::parse(fit(train, s).json());
      for (const std::string name : {"sales", "new"}) {
        const std::string key = name + " " + fill + " " + scale;
        const json& want = golden().at("numbers").at(key);
        const FeatureTable t = read(name + ".csv");
        for (size_t c = 0; c < features.numbers.size(); ++c) {
          const NumberMap& map = features.numbers[c];
          const FeatureColumn column = t.column(map.column);
          for (int64_t r = 0; r < t.rows(); ++r) {
            INFO(key << ", " << map.column << ", row " << r);
            const double got = map.apply(cell_number(t, map.column, column.texts[static_cast<size_t>(r)], r));
            // Sums in another order than numpy's differ by a few units in the last place of the largest.
            CHECK(got == Catch::Approx(want[static_cast<size_t>(r)][c].get<double>()).epsilon(1e-12).margin(1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("a target is transformed and comes back", "[features]") {
  const FeatureTable t = read("sales.csv");
  FeatureSchema s = schema();
  s.target_form = TargetForm::standard;
  const Features standard = Features::parse(fit(t, s).json());
  const std::vector<float> got = target_numbers(t, "Sales", standard.target_transform);
  for (size_t r = 0; r < got.size(); ++r)
    CHECK(got[r] == Catch::Approx(golden().at("standard_target")[r].get<double>()).epsilon(1e-6));
  for (const TargetForm form : {TargetForm::plain, TargetForm::log, TargetForm::log1p, TargetForm::standard}) {
    TargetTransform transform = standard.target_transform;
    transform.form = form;
    CHECK(transform.inverse(transform.forward(1234.5)) == Catch::Approx(1234.5).epsilon(1e-12));
  }
  CHECK(TargetTransform{TargetForm::log1p}.forward(0) == 0);
  expect_error("E_DATA_LABEL", "sales.csv:2:36: the target is 0, log takes numbers above 0",
               [&] { target_numbers(t, "Sales", {TargetForm::log}); });
}

TEST_CASE("dates are read as people write them, and nothing else is a date", "[features]") {
  for (const char* text : {"2015-07-31", "2015/07/31", "20150731", "2015-07-31 00:00", "2015-07-31T00:00:00.250Z"}) {
    INFO(text);
    REQUIRE(parse_date(text));
    CHECK(parse_date(text)->seconds == 1438300800);
  }
  CHECK(parse_date("2015-07-31 12:30:59")->seconds == 1438300800 + 45059);
  for (const char* text : {"31.07.2015", "07/31/2015", "2015-02-29", "2015-13-01", "2015-7-1", "2015-07-31x",
                           "2015-07/31", "2015", "", "2015-07-31 25:00", "-015-07-31"}) {
    INFO(text);
    CHECK_FALSE(parse_date(text));
  }
  CHECK(part_name("saleDate", date_parts()[0]) == "saleYear");
}

TEST_CASE("what columns hold tells what they are", "[features]") {
  std::string text = "id,when,shop,area,score,kind,flag,note,same,empty,y\n";
  for (int i = 0; i < 60; ++i) {
    text += std::to_string(i + 7) + ",2015-01-" + (i % 28 < 9 ? "0" : "") + std::to_string(i % 28 + 1) + "," +
            std::to_string(100 + i % 30) + "," + std::to_string(i % 40) + "," + std::to_string(i % 7) + ".5," +
            "abc"[i % 3] + "," + (i % 2 ? "1" : "0") + ",words of row " + std::to_string(i) + ",x,," +
            std::to_string(i * 3) + "\n";
  }
  FeatureTable t = parsed(text);
  const Guess g = guess_features(t, "y", {}, {parse_join("shops.csv:shop")});
  CHECK(g.dates == Names{"when"});
  CHECK(Names(g.categorical.begin(), g.categorical.begin() + 3) == Names{"shop", "kind", "flag"});  // shop: a key
  CHECK(g.categorical.size() == 3 + 12);
  CHECK(g.continuous == Names{"area", "score", "whenElapsed"});
  std::vector<std::string> left;
  for (const auto& [name, why] : g.left_out) left.push_back(name);
  CHECK(left == Names{"id", "note", "same", "empty"});
  CHECK(is_number_target(t, "y"));
  CHECK_FALSE(is_number_target(t, "flag"));
  CHECK_FALSE(is_number_target(t, "kind"));
}

TEST_CASE("features go to inputs by name, kind and width", "[features]") {
  const FeatureTable t = parsed("a,b,c,d,y\nx,1,0.5,1,1\ny,2,,2,2\nx,1,1.5,4,3\n");
  FeatureSchema s;
  s.categorical = {"a", "b"};
  s.continuous = {"c", "d"};
  s.target = "y";
  const auto inputs_of = [&](std::vector<InputSpec> inputs, int64_t indicators) {
    Features f = fit(t, s);
    Names out;
    for (const FeatureInput& i : assign_features(f, inputs, true)) {
      std::string text = i.input.name + ":";
      for (const FeatureRef& r : i.features) text += " " + name_of(f, r);
      out.push_back(text);
    }
    CHECK(f.indicators() == indicators);
    const Features again = f;
    CHECK(assign_features(f, inputs, false).size() == out.size());
    CHECK(f.json() == again.json());
    return out;
  };
  CHECK(inputs_of({kCodes, {"x", DType::f32, Dims{-1, 2}}}, 0) == Names{"x_cat: a b", "x: c d"});
  CHECK(inputs_of({{"x", DType::f32, Dims{-1, 3}}, kCodes}, 1) == Names{"x: c d c_na", "x_cat: a b"});
  CHECK(inputs_of({{"x", DType::f32, Dims{-1, -1}}, kCodes}, 1) == Names{"x: c d c_na", "x_cat: a b"});
  CHECK(inputs_of({{"all", DType::f32, Dims{-1, 4}}}, 0) == Names{"all: c d a b"});
  CHECK(inputs_of({{"all", DType::f32, Dims{-1, 5}}}, 1) == Names{"all: c d c_na a b"});
  CHECK(inputs_of({{"d", DType::f32, Dims{-1, 1}},
                   {"b:0", DType::i64, Dims{-1}},
                   {"a", DType::i32, Dims{-1, 1}},
                   {"c", DType::f32, Dims{-1}}},
                  0) == Names{"d: d", "b:0: b", "a: a", "c: c"});
  CHECK(inputs_of({{"b:0", DType::i64, Dims{-1}}, {"a:0", DType::i64, Dims{-1}}, {"x", DType::f32, Dims{-1, 2}}}, 0) ==
        Names{"b:0: b", "a:0: a", "x: c d"});
  CHECK(inputs_of({{"b", DType::i64, Dims{-1}}, {"rest", DType::i64, Dims{-1, 1}}, {"x", DType::f32, Dims{-1, 2}}},
                  0) == Names{"b: b", "rest: a", "x: c d"});
  const auto refused = [&](const std::string& id, const std::string& part, std::vector<InputSpec> inputs) {
    Features f = fit(t, s);
    expect_error(id, part, [&] { assign_features(f, inputs, true); });
  };
  refused("E_FEATURE_WIDTH", "'x_cat' takes 3 features, the columns give 2: a, b",
          {{"x_cat", DType::i64, Dims{-1, 3}}, {"x", DType::f32, Dims{-1, 2}}});
  refused("E_FEATURE_WIDTH", "'x' takes 4 features, the columns give 2 (3 with an indicator",
          {kCodes, {"x", DType::f32, Dims{-1, 4}}});
  refused("E_FEATURE_INPUT", "no input of floats for: c, d", {kCodes});
  refused("E_FEATURE_INPUT", "several inputs of integers without a column's name: 'i', 'j'",
          {{"i", DType::i64, Dims{-1, 1}}, {"j", DType::i64, Dims{-1, 1}}, {"x", DType::f32, Dims{-1, 2}}});
  refused("E_FEATURE_INPUT", "'image' has 4 dimensions", {{"image", DType::f32, Dims{-1, 3, 8, 8}}});
  refused("E_FEATURE_INPUT", "takes integers, the column is continuous",
          {{"c", DType::i64, Dims{-1}}, {"x", DType::f32, Dims{-1, 3}}});
  s.categorical.clear();
  refused("E_FEATURE_INPUT", "no categorical column is left for it", {kCodes, {"x", DType::f32, Dims{-1, 2}}});
}

TEST_CASE("batches of features, and the labels beside them", "[features]") {
  const FeatureTable t = parsed("a,c,y\nx,1,10\ny,3,20\n,5,30\n");
  FeatureSchema s;
  s.categorical = {"a"};
  s.continuous = {"c"};
  s.target = "y";
  s.scaling = Scaling::none;
  Features f = fit(t, s);
  const auto inputs = assign_features(
      f, {{"a", DType::i32, Dims{-1}}, {"x", DType::f32, Dims{-1, 1}}, {"target", DType::f32, Dims{-1}}}, true);
  const auto data = make_feature_dataset(t, f, feature_values(t, f), inputs, {target_numbers(t, "y", {}), {}, {}});
  const Batch b = data->batch(Ints{2, 0});
  CHECK(b.inputs.at("a").dtype() == DType::i32);
  CHECK(b.inputs.at("a").dims() == Dims{2});
  CHECK(b.inputs.at("a").to_ints() == Ints{0, 1});
  CHECK(b.inputs.at("x").dims() == Dims{2, 1});
  CHECK(b.inputs.at("x").to_doubles() == std::vector<double>{5, 1});
  CHECK(b.labels.to_doubles() == std::vector<double>{30, 10});
  CHECK(b.inputs.at("target").to_doubles() == std::vector<double>{30, 10});
  CHECK(b.samples == Ints{2, 0});
  CHECK(data->where(2) == "t.csv:4");
  data->check_token_range("a", 3);
  expect_error("E_DATA_TOKEN_RANGE", "t.csv:3: column 'a' has the code 2", [&] { data->check_token_range("a", 2); });
}

TEST_CASE("nothing is learnt from rows that training does not have", "[features]") {
  const FeatureTable t = parsed("a,c,y\nx,1,10\ny,3,20\nz,100,30\n");
  FeatureSchema s;
  s.categorical = {"a"};
  s.continuous = {"c"};
  s.target = "y";
  const Features f = fit_features(t, s, Ints{0, 1}, true);
  CHECK(f.categories[0].values == Names{"x", "y"});
  CHECK(f.numbers[0].mean == 2);
  CHECK(codes_of(feature_values(t, f), 0) == "120");
}

TEST_CASE("categories that are numbers are in their order", "[features]") {
  Names n = {"10", "9", "-1", "2.5"}, texts = {"10", "9", "x"};
  sort_values(n);
  sort_values(texts);
  CHECK(n == Names{"-1", "2.5", "9", "10"});
  CHECK(texts == Names{"10", "9", "x"});
}

TEST_CASE("tables that cannot be features are refused with their place", "[features]") {
  const FeatureTable t = parsed("a,c,y\nx,1,10\n\"new\nline\",\"3\",20\nz,ten,\n");
  FeatureSchema s;
  s.continuous = {"c"};
  s.target = "y";
  expect_error("E_DATA_NUMBER", "t.csv:5:3: 'ten' in column 'c' is no number", [&] { fit(t, s); });
  s.continuous = {"cc"};
  const Error e = error_of([&] { fit(t, s); });
  CHECK(e.id() == "E_DATA_COLUMN");
  CHECK(e.hint() == "did you mean 'c'?");
  expect_error("E_DATA_LABEL", "t.csv:5:7: no value in the target column 'y'", [&] { target_numbers(t, "y", {}); });
  expect_error("E_DATA_LABEL", "'x' in the target column 'a' is no number", [&] { target_numbers(t, "a", {}); });
  FeatureTable dates = parsed("d,y\n2015-01-01,1\n2015-01-32,2\n");
  dates.add_parts("d");
  expect_error("E_DATA_DATE", "t.csv:3:1: '2015-01-32' is no date", [&] { dates.column("dYear"); });
  const FeatureTable gaps = parsed("c,y\nNA,1\n,2\n");
  s.continuous = {"c"};
  expect_error("E_DATA_NUMBER", "column 'c' has no number in the 2 training rows", [&] { fit(gaps, s); });
  FeatureTable left = parsed("k,v,y\n1,a,1\n2,b,2\n3,c,3\n");
  const auto other = [](const std::string& text) { return Table::parse(text, "o.csv", reader_named("csv")); };
  expect_error("E_JOIN", "o.csv:3:1: the key '1' of `join` is also in line 2",
               [&] { left.join(parse_join("o.csv:k"), other("k,w\n1,2\n1,3\n")); });
  expect_error("E_DATA_COLUMN", "no column 'key'", [&] { left.join(parse_join("o.csv:key"), other("k,w\n1,2\n")); });
  CHECK(left.join(parse_join("o.csv:k=id"), other("id,v\n1,ten\n3,5\n")) == 1);
  CHECK(left.column("o.v").texts == std::vector<std::string_view>{"ten", "", "5"});
  s.continuous = {"o.v"};
  expect_error("E_DATA_NUMBER", "o.csv:2:3, joined to t.csv:2: 'ten'", [&] { fit(left, s); });
  for (const char* text : {"store.csv", ":Store", "store.csv:", "store.csv:A,", "store.csv:=B"})
    expect_error(
        "E_FLAG_VALUE", text, [&] { parse_join(text); }, Exit::usage);
}

TEST_CASE("a record of features that is damaged is refused", "[features]") {
  const std::string good = fit(read("sales.csv"), schema()).json();
  CHECK(Features::parse(good).json() == good);
  std::string keys = "{\"version\":1";
  for (int i = 0; i < 20'000; ++i) keys += cat(",\"", i, "\":0");
  for (const std::string& bad : {std::string("{}"), std::string("[]"), std::string("{\"version\":2}"),
                                 good.substr(0, 99), keys + "}", std::string(200'000, '[')})
    expect_error(
        "E_FEATURES", "metadata_props 'features' cannot be read", [&] { Features::parse(bad); }, Exit::model);
}
