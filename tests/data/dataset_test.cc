// Datasets: batches by graph input name, labels, and the errors of bad data.
#include <catch2/catch_all.hpp>
#include <limits>

#include "base/error.h"
#include "data/reader.h"
#include "data/tensor_dataset.h"
#include "data/text_dataset.h"
#include "data/tokenizers/wordpiece.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;

namespace {

const WordPiece& tokenizer() {
  static const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##s\n", "v.txt"));
  return w;
}

Table rows(const std::string& csv) { return Table::parse(csv, "t.csv", reader_named("csv")); }

const std::vector<InputSpec> kBert = {{"input_ids"}, {"attention_mask", DType::i32}, {"token_type_ids"}};

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("text batches are padded to a multiple of the longest, within max_seq_len") {
  const Table t = rows("text,label\na,x\na b c as,y\nb c,x\na b c a b c a b c a b c a b c,z\n");
  TextOptions o{.text_columns = {"text"},
                .label_column = "label",
                .classes = find_classes(t, "label"),
                .max_seq_len = 10,
                .pad_to_multiple = 4};
  CHECK(o.classes.names == std::vector<std::string>{"x", "y", "z"});
  const auto data = make_text_dataset(t, tokenizer(), kBert, o);
  CHECK(data->size() == 4);
  CHECK(std::vector<int32_t>(data->lengths().begin(), data->lengths().end()) == std::vector<int32_t>{3, 7, 4, 10});
  const Batch b = data->batch(Ints{1, 0});
  CHECK(b.inputs.size() == 3);
  CHECK(b.inputs.at("input_ids").dims() == Dims{2, 8});
  CHECK(b.inputs.at("input_ids").to_ints() == Ints{2, 4, 5, 6, 4, 7, 3, 0, 2, 4, 3, 0, 0, 0, 0, 0});
  CHECK(b.inputs.at("attention_mask").dtype() == DType::i32);
  CHECK(b.inputs.at("attention_mask").to_ints() == Ints{1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0});
  CHECK(b.inputs.at("token_type_ids").to_ints() == Ints(16, 0));
  CHECK(b.labels.dtype() == DType::i64);
  CHECK(b.labels.to_ints() == Ints{1, 0});
  CHECK(b.rows == 2);
  CHECK(b.valid_items == 2);
  CHECK(b.tokens == 10);
  CHECK(data->batch(Ints{2}).inputs.at("input_ids").dims() == Dims{1, 4});
  CHECK(data->batch(Ints{3, 0}).inputs.at("input_ids").dims() == Dims{2, 10});  // max_seq_len, not 12
  CHECK(data->where(3) == "t.csv:5");
  CHECK(data->cut_samples() == 1);
  o.fixed_seq_len = 16;
  CHECK(make_text_dataset(t, tokenizer(), kBert, o)->batch(Ints{0}).inputs.at("input_ids").dims() == Dims{1, 16});
}

TEST_CASE("pairs have token types, only the inputs asked for are made") {
  const Table t = rows("one,two\na b,c\n");
  const auto data = make_text_dataset(t, tokenizer(), {{"segment_ids:0"}, {"position_ids"}, {"input_mask", DType::f32}},
                                      {.text_columns = {"one", "two"}});
  const Batch b = data->batch(Ints{0});
  CHECK(b.inputs.size() == 3);
  CHECK(b.inputs.at("segment_ids:0").to_ints() == Ints{0, 0, 0, 0, 1, 1, 0, 0});
  CHECK(b.inputs.at("position_ids").to_ints() == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(b.inputs.at("input_mask").dtype() == DType::f32);
  CHECK_FALSE(b.labels);
  CHECK(b.valid_items == 0);
  CHECK_FALSE(text_role("pixel_values"));
  CHECK_FALSE(text_role("x"));
  expect_error("E_DATA_INPUT", "'pixel_values'",
               [&] { make_text_dataset(t, tokenizer(), {{"pixel_values"}}, {.text_columns = {"one"}}); });
}

TEST_CASE("labels: natural order, unknown, missing, single, numeric") {
  CHECK(find_classes(rows("text,l\na,10\nb,2\nc,b\nc,B\nc,\xc3\xa9\n"), "l") ==
        std::vector<std::string>{"2", "10", "B", "b", "\xc3\xa9"});
  const std::vector<std::string> known = {"neg", "pos"};
  expect_error("E_DATA_LABEL_NEW",
               "t.csv:3: label 'neutral' in column 'l' is not known; the 2 known labels are: neg, pos",
               [&] { class_ids(rows("text,l\na,pos\nb,neutral\n"), "l", known); });
  expect_error("E_DATA_LABEL", "t.csv:3: no label in column 'l'",
               [] { find_classes(rows("text,l\na,pos\nb,\n"), "l"); });
  expect_error("E_DATA_LABEL", "all 2 rows have the label 'pos'",
               [] { find_classes(rows("text,l\na,pos\nb,pos\n"), "l"); });
  expect_error("E_DATA_COLUMN", "no column 'label'", [] { find_classes(rows("text,labl\na,pos\n"), "label"); });
  CHECK(label_numbers(rows("text,l\na,1.5\nb,-2\n"), "l") == std::vector<float>{1.5f, -2.0f});
  for (const char* bad : {"nan", "inf", "1e99", "x", "1,5", "1.5 "}) {
    expect_error("E_DATA_LABEL", "t.csv:2", [&] { label_numbers(rows(cat("text,l\na,\"", bad, "\"\n")), "l"); });
  }
  const Table t = rows("text,score\na,0.25\nb,4\n");
  const Batch b = make_text_dataset(t, tokenizer(), kBert,
                                    {.text_columns = {"text"}, .label_column = "score", .labels = LabelForm::numbers})
                      ->batch(Ints{1, 0});
  CHECK(b.labels.to_doubles() == std::vector<double>{4, 0.25});
  CHECK(b.valid_items == 2);
}

TEST_CASE("label sets: separated names, JSON arrays, empty ones, unknown names") {
  using Sets = std::vector<std::vector<std::string>>;
  const Table t = rows("text,l\na,x|y\nb,\nc, y | z \n");
  const Sets sets = label_sets(t, "l");
  CHECK(sets == Sets{{"x", "y"}, {}, {"y", "z"}});
  const std::vector<std::string> names = find_names(sets);
  CHECK(names == std::vector<std::string>{"x", "y", "z"});
  CHECK(multi_hot(t, sets, names) == std::vector<float>{1, 1, 0, 0, 0, 0, 0, 1, 1});
  CHECK(label_sets(rows("text,l\na,\"x;y,z\"\n"), "l", ',') == Sets{{"x;y", "z"}});
  CHECK(label_sets(rows("text,l\na,x;y\n"), "l") == Sets{{"x", "y"}});
  const Table json =
      Table::parse("{\"l\": [\"a|b\", 3]}\n{\"l\": null}\n{\"l\": \"c\"}\n", "t.jsonl", reader_named("jsonl"));
  CHECK(label_sets(json, "l") == Sets{{"a|b", "3"}, {}, {"c"}});
  const std::vector<std::string> known = {"x", "y"};
  expect_error("E_DATA_LABEL_NEW", "t.csv:4: label 'z' is not known; the 2 known labels are: x, y",
               [&] { multi_hot(t, sets, known); });
  expect_error("E_DATA_LABEL", "t.jsonl:1: the labels in column 'l' are no array of names",
               [] { label_sets(Table::parse("{\"l\": {\"a\": 1}}\n", "t.jsonl", reader_named("jsonl")), "l"); });
  expect_error("E_DATA_LABEL", "no row has a label", [] { find_names({{}, {}}); });
  const Batch b =
      make_text_dataset(t, tokenizer(), kBert,
                        {.text_columns = {"text"}, .label_column = "l", .labels = LabelForm::sets, .classes = names})
          ->batch(Ints{2, 0});
  CHECK(b.labels.dims() == Dims{2, 3});
  CHECK(b.labels.to_doubles() == std::vector<double>{0, 1, 1, 1, 1, 0});
}

TEST_CASE("a column of fractions is one to regress on") {
  CHECK(is_regression_column(rows("text,l\na,0.5\nb,2\n"), "l"));
  CHECK_FALSE(is_regression_column(rows("text,l\na,1\nb,2\n"), "l"));
  CHECK_FALSE(is_regression_column(rows("text,l\na,0.5\nb,x\n"), "l"));
  CHECK_FALSE(is_regression_column(rows("text,l\na,0.5\nb,\n"), "l"));
}

TEST_CASE("labels feed the input of a model that computes its own loss") {
  std::vector<InputSpec> inputs = kBert;
  inputs.push_back({"labels", DType::i32});
  const Batch b = make_text_dataset(rows("text,l\na,x\nb,y\n"), tokenizer(), inputs,
                                    {.text_columns = {"text"}, .label_column = "l", .classes = {"x", "y"}})
                      ->batch(Ints{1, 0});
  CHECK(b.inputs.at("labels").dtype() == DType::i32);
  CHECK(b.inputs.at("labels").to_ints() == Ints{1, 0});
  const std::vector<NamedTensor> tensors = {{"x", HostTensor::zeros(DType::f32, {3, 1})},
                                            {"label", HostTensor::of<int64_t>({3}, {2, 1, 0})},
                                            {"more", HostTensor::zeros(DType::f32, {3, 2})}};
  const auto data = make_tensor_dataset(tensors, "t.npz", {{"x", DType::f32}, {"labels", DType::i64}},
                                        {.batch_size = 2, .more_labels = {"more"}});
  const Batch c = data->batch(Ints{0, 2});
  CHECK(c.inputs.at("labels").to_ints() == Ints{2, 0});
  CHECK(c.more_labels.at("more").dims() == Dims{2, 2});
  expect_error("E_DATA_COLUMN", "has no tensor for the loss's label 'other'",
               [&] { make_tensor_dataset(tensors, "t.npz", {}, {.more_labels = {"other"}}); });
}

TEST_CASE("tokens beyond the model's table and labels beyond its classes are refused with their line") {
  const Table t = rows("text,l\na,x\nas,y\n");
  const auto data =
      make_text_dataset(t, tokenizer(), kBert, {.text_columns = {"text"}, .label_column = "l", .classes = {"x", "y"}});
  data->check_token_range("input_ids", 8);
  data->check_token_range("token_type_ids", 1);
  expect_error("E_DATA_TOKEN_RANGE", "t.csv:3: input 'input_ids' has the value 7, the model's table has 7 rows",
               [&] { data->check_token_range("input_ids", 7); });
  data->check_label_range(2);
  expect_error("E_DATA_LABEL", "t.csv:3: label 'y' is class 1", [&] { data->check_label_range(1); });
}

TEST_CASE("tensors are cut by rows, or are one whole batch") {
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const std::vector<NamedTensor> tensors = {{"x", HostTensor::of<float>({6, 4}, x)},
                                            {"unused", HostTensor::of<float>({1}, {0})},
                                            {"label", HostTensor::of<int64_t>({6}, {0, 1, -100, 3, 4, -100})}};
  const std::vector<InputSpec> inputs = {{"x", DType::f32, Dims{-1, 4}}};
  const auto data = make_tensor_dataset(tensors, "t.npz", inputs, {.batch_size = 4});
  CHECK(data->size() == 6);
  CHECK(data->lengths().empty());
  const Batch b = data->batch(Ints{5, 1, 0});
  CHECK(b.inputs.size() == 1);
  CHECK(b.inputs.at("x").dims() == Dims{3, 4});
  CHECK(b.inputs.at("x").to_ints() == Ints{20, 21, 22, 23, 4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(b.labels.to_ints() == Ints{-100, 1, 0});
  CHECK(b.valid_items == 2);
  const auto whole = make_tensor_dataset(tensors, "t.npz", inputs, {.batch_size = 6});
  CHECK(whole->size() == 1);
  const Batch all = whole->batch(Ints{0});
  CHECK(all.rows == 6);
  CHECK(all.valid_items == 4);
  CHECK(all.inputs.at("x").dims() == Dims{6, 4});
  data->check_label_range(5);
  expect_error("E_DATA_LABEL", "the label at [4] is 4", [&] { data->check_label_range(4); });
}

TEST_CASE("tensors that differ in rows are one whole batch; labels keep their type") {
  const auto data = make_tensor_dataset({{"input_ids", HostTensor::of<int32_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7})},
                                         {"label", HostTensor::of<double>({2}, {0.5, 1})}},
                                        "t.safetensors", {{"input_ids", DType::i64}}, {.batch_size = 1});
  CHECK(data->size() == 1);
  const Batch b = data->batch(Ints{0});
  CHECK(b.rows == 4);
  CHECK(b.inputs.at("input_ids").dtype() == DType::i64);
  CHECK(b.labels.dtype() == DType::f64);
  CHECK(b.valid_items == 2);
  data->check_token_range("input_ids", 8);
  expect_error("E_DATA_TOKEN_RANGE", "the value 7 at [3,1]", [&] { data->check_token_range("input_ids", 7); });
}

TEST_CASE("tensors that the graph cannot take are refused") {
  const std::vector<NamedTensor> tensors = {{"image", HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}};
  const auto make = [&](const InputSpec& input) { make_tensor_dataset(tensors, "t.npz", {input}, {}); };
  expect_error("E_DATA_COLUMN", "no tensor for the graph's input 'imag'; it has: image", [&] {
    make({"imag", DType::f32});
  });
  expect_error("E_DATA_SHAPE", "float32 [2,3], the graph's input is float32 [-1,4]", [&] {
    make({"image", DType::f32, Dims{-1, 4}});
  });
  expect_error("E_DATA_SHAPE", "[-1,3,1]", [&] { make({"image", DType::f32, Dims{-1, 3, 1}}); });
  expect_error("E_DATA_SHAPE", "the graph's input is int64", [&] { make({"image", DType::i64}); });
  const std::vector<NamedTensor> bad = {
      {"x", HostTensor::of<float>({2, 2}, {1, 2, std::numeric_limits<float>::quiet_NaN(), 4})}};
  expect_error("E_DATA_NONFINITE", "'x' holds nan at [1,0]", [&] {
    make_tensor_dataset(bad, "t.npz", {{"x", DType::f32}}, {});
  });
  make_tensor_dataset(bad, "t.npz", {{"x", DType::f32}}, {.allow_nonfinite = true});
  expect_error("E_DATA_EMPTY", "no rows", [&] {
    make_tensor_dataset({{"x", HostTensor::of<float>({0, 2}, {})}}, "t.npz", {{"x", DType::f32}}, {});
  });
}

TEST_CASE("labels of pairs make a pair a sample") {
  const std::vector<InputSpec> inputs = {{"x", DType::f32}};
  const HostTensor x = HostTensor::of<float>({6, 1}, {0, 1, 2, 3, 4, 5});
  const auto open = [&](int64_t labels, int64_t rows_per_item, int64_t batch_size) {
    std::vector<float> y(static_cast<size_t>(labels));
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(10 * i);
    return make_tensor_dataset({{"x", x}, {"label", HostTensor::of<float>({labels}, y)}}, "t.npz", inputs,
                               {.batch_size = batch_size, .rows_per_item = rows_per_item});
  };
  const auto pairs = open(3, 2, 2);
  CHECK(pairs->size() == 3);
  CHECK(pairs->rows_per_sample() == 2);
  const Batch b = pairs->batch(Ints{2, 0});
  CHECK(b.inputs.at("x").to_doubles() == std::vector<double>{4, 5, 0, 1});
  CHECK(b.labels.to_doubles() == std::vector<double>{20, 0});
  CHECK(b.rows == 2);
  CHECK(open(2, 3, 1)->batch(Ints{1}).inputs.at("x").to_doubles() == std::vector<double>{3, 4, 5});
  CHECK(open(6, 2, 2)->size() == 6);  // with one label per row, rows are counted
  CHECK(open(3, 1, 2)->size() == 1);  // without a loss on pairs, rows are independent
  CHECK(open(3, 2, 3)->size() == 1);  // one whole batch
  CHECK(open(3, 2, 3)->rows_per_sample() == 1);
}
