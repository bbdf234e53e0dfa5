// Data beyond the memory limit: a mapped file and arrays in a temporary file give the same rows and batches.
#include <zlib.h>

#include <catch2/catch_all.hpp>
#include <fstream>

#include "base/error.h"
#include "data/language/language.h"
#include "data/reader.h"
#include "data/table.h"
#include "data/text_dataset.h"
#include "data/tokenizers/wordpiece.h"
#include "tests/in_memory.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr int64_t kRows = 20'000;  // more than two blocks

const WordPiece& tokenizer() {
  static const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##s\n", "v.txt"));
  return w;
}

std::string text_of(int64_t row) {
  std::string out = "a";
  for (int64_t i = 0; i < row * 7 % 11; ++i) out += (row + i) % 3 ? " b" : " cs";
  return out;
}

std::string csv() {  // some fields are stored literally, others are escaped
  std::string out = "text,label\n";
  for (int64_t r = 0; r < kRows; ++r)
    out += r % 5 == 0 ? cat("\"", text_of(r), " \"\"c\"\"\",x\n") : cat(text_of(r), ",", r % 2 ? "x" : "y", "\n");
  return out;
}

std::string jsonl() {  // with a key that first occurs late
  std::string out;
  for (int64_t r = 0; r < kRows; ++r)
    out += cat("{\"text\": \"", text_of(r), r == kRows / 2 ? "\", \"note\": \"late" : "", "\"}\n");
  return out;
}

std::string gzip(const std::string& text, const std::string& path) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
  return path;
}

std::string plain(const std::string& text, const std::string& path) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::vector<std::string> all_cells(const Table& t) {
  std::vector<std::string> out;
  for (int64_t r = 0; r < t.rows(); ++r) {
    for (size_t c = 0; c < t.columns().size(); ++c)
      out.push_back(t.has(r, c) ? cat(t.where(r, c), " ", t.text(r, c)) : "absent");
  }
  return out;
}

const std::vector<InputSpec> kInputs = {{"input_ids"}, {"attention_mask"}, {"token_type_ids"}, {"position_ids"}};

// Returns all numbers of all batches.
std::vector<int64_t> all_numbers(const Dataset& data) {
  std::vector<int64_t> out;
  for (int64_t s = 0; s < data.size(); s += 1000) {
    std::vector<int64_t> samples;
    for (int64_t i = s; i < std::min(data.size(), s + 1000); ++i) samples.push_back(i);
    const Batch b = data.batch(samples);
    const auto add = [&](const std::vector<int64_t>& numbers) {
      out.insert(out.end(), numbers.begin(), numbers.end());
    };
    for (const auto& [name, tensor] : b.inputs) add(tensor.to_ints());
    if (b.labels) add(b.labels.to_ints());
    out.push_back(b.tokens);
  }
  out.insert(out.end(), data.source_rows().begin(), data.source_rows().end());
  return out;
}

// Checks that f returns the same with data in memory and in files.
template <class F>
void same_without_memory(F&& f) {
  const auto in_memory = f();
  const InMemoryLimit limit(1);
  CHECK((f() == in_memory));
}

}  // namespace

TEST_CASE("tables larger than memory", "[spill]") {
  const TempDir folder;
  plain(csv(), folder / "t.csv");
  gzip(csv(), folder / "t.csv.gz");
  plain(jsonl(), folder / "t.jsonl");
  gzip(jsonl(), folder / "t.jsonl.gz");
  const std::string name = GENERATE("t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.csv*");
  CAPTURE(name);
  const std::string file = folder / name;
  same_without_memory([&] { return all_cells(Table::read(file)); });
  same_without_memory([&] {
    Table t = Table::read(file);
    t.replace(t.column("text"), {{"a", "replaced"}, {"a cs", "b"}});
    return all_cells(t);
  });
}

TEST_CASE("a cell that stands in its file as it is read is not copied", "[spill]") {
  const std::string text = "text,label\nplain,\"quoted\"\n\"with \"\"two\"\"\",y\n";
  const auto bytes = std::make_shared<std::vector<uint8_t>>(text.begin(), text.end());
  const FileBytes file{std::shared_ptr<uint8_t>(bytes, bytes->data()), static_cast<int64_t>(text.size())};
  const Table t = Table::parse(file, "t.csv", reader_named("csv"));
  const auto copied = [&](int64_t row, size_t column) {
    const auto at = reinterpret_cast<uintptr_t>(t.text(row, column).data()),
               begin = reinterpret_cast<uintptr_t>(bytes->data());
    return at < begin || at >= begin + text.size();
  };
  CHECK(!copied(0, 0));
  CHECK(!copied(0, 1));
  CHECK(copied(1, 0));
  CHECK(t.text(0, 1) == "quoted");
  CHECK(t.text(1, 0) == "with \"two\"");
}

TEST_CASE("texts of classes larger than memory", "[spill]") {
  const TempDir folder;
  const std::string file = plain(csv(), folder / "t.csv");
  const bool sides = GENERATE(false, true);
  same_without_memory([&] {
    const Table t = Table::read(file);
    TextOptions o;
    o.text_columns = {"text", "label"};
    o.sides = sides;
    o.label_column = "label";
    o.classes = {"x", "y"};
    const auto data = make_text_dataset(t, tokenizer(), kInputs, o);
    CHECK(data->size() == kRows);
    return all_numbers(*data);
  });
}

TEST_CASE("language models' texts larger than memory", "[spill]") {
  const TempDir folder;
  const std::string file = plain(jsonl(), folder / "t.jsonl");
  const TextPacking packing = GENERATE(TextPacking::none, TextPacking::stride, TextPacking::wrapped, TextPacking::bfd);
  same_without_memory([&] {
    const Table t = Table::read(file);
    LanguageOptions options;
    options.columns = {"text"};
    options.max_seq_len = 9;
    options.packing = packing;
    TextOptions o;
    o.labels = LabelForm::ids;
    const auto data =
        make_labeled_dataset(encode_language(t, tokenizer(), nullptr, options).texts, {file}, tokenizer(), kInputs, o);
    CHECK(data->size() > 1000);
    return all_numbers(*data);
  });
}
