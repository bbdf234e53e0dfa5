// Tokenizers with more tokens than a decoder's table: refused before anything is computed, for each form of the table.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/npz.h"
#include "base/text.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kFolders = "tests/data/llm/";
constexpr int kRows = 320;  // rows of the table of every folder in tests/data/llm/

// Copies a folder, with the tokenizer of llama-int4 and tokens added to it: `size` ids in all.
std::string with_tokens(const TempDir& f, const std::string& folder, int size) {
  const std::string out = f / folder;
  fs::copy(kFolders + folder, out, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(kFolders + "llama-int4/" + file, f / (folder + "/" + file), fs::copy_options::overwrite_existing);
  json tokenizer = json::parse(bytes_of(out + "/tokenizer.json"));
  json added = tokenizer["added_tokens"][0];
  for (int id = static_cast<int>(tokenizer["model"]["vocab"].size()); id < size; ++id) {
    added["id"] = id;
    added["content"] = cat("<|extra_", id, "|>");
    tokenizer["added_tokens"].push_back(added);
  }
  write_bytes(out + "/tokenizer.json", tokenizer.dump());
  return out;
}

}  // namespace

TEST_CASE("a vocabulary larger than a decoder's table is refused before the run", "[llm]") {
  // Depending on the folder, the table of embeddings is a reshaped copy of the head's packed weight, a separate tensor,
  // or the transposed weight of the head.
  const std::string folder = GENERATE("llama-int4", "llama-int4-qdq", "qwen3-fp32", "optimum-llama");
  INFO(folder);
  const TempDir f;
  write_bytes(f / "chat.jsonl",
              R"({"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "This."}]})"
              "\n");
  const std::vector<std::string> data = {"--task", "language", "--text_columns", "messages", "--threads", "1"};
  const auto run = [&](std::vector<std::string> words, bool texts) {
    if (texts) words.insert(words.end(), data.begin(), data.end());
    return run_verb(words);
  };
  const std::string chat = f / "chat.jsonl";
  const auto each = [&](const std::string& model, const auto& check) {
    check(run({"train", model, "--train", chat, "--max_steps", "1", "--output_dir", f / "run", "--overwrite"}, true));
    check(run({"train", model, "--train", chat, "--dry_run", "--output_dir", f / "dry"}, true));
    check(run({"eval", model, "--val", chat}, true));
    check(run({"predict", model, "--inputs", chat, "--out", f / "p.jsonl"}, true));
    check(run({"bench", model, "--train", chat, "--timed_steps", "1"}, true));
    check(run({"generate", model, "--prompt", "This", "--max_new_tokens", "1"}, false));
  };
  each(with_tokens(f, folder, kRows), [](const Said& s) {
    INFO(s.fact);
    CHECK(s.code == 0);
    CHECK_THAT(s.err, !ContainsSubstring("W_VOCAB_SIZE"));
  });
  each(with_tokens(f, folder, kRows + 1), [&](const Said& s) {
    INFO(s.fact << s.err);
    CHECK(s.code == 5);
    CHECK(s.id == "E_VOCAB_SIZE");
    CHECK_THAT(s.fact, ContainsSubstring("has 321 tokens") && ContainsSubstring("has 320 rows"));
  });
}

TEST_CASE("token ids of a tensor file beyond a tied table are found before the run", "[llm]") {
  const std::string folder = GENERATE("llama-int4", "qwen3-fp32");
  INFO(folder);
  const TempDir f;
  const HostTensor ids = HostTensor::of<int64_t>({2, 2}, {5, 6, 7, kRows}),
                   ones = HostTensor::of<int64_t>({2, 2}, {1, 1, 1, 1});
  write_tensor_file(
      f / "batch.safetensors",
      {{"input_ids", ids}, {"attention_mask", ones}, {"label", HostTensor::of<int64_t>({2, 2}, {5, 6, 7, 8})}});
  const Said s = run_verb({"train", kFolders + folder, "--train", f / "batch.safetensors", "--loss", "causal_lm",
                           "--max_steps", "1", "--output_dir", f / "run", "--threads", "1"});
  INFO(s.fact << s.err);
  CHECK(s.id == "E_DATA_TOKEN_RANGE");
  CHECK_THAT(s.fact, ContainsSubstring("320"));
}
