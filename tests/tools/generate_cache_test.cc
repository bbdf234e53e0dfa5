// Generation with a key/value cache: the tokens equal those of whole texts, for the folders in tests/data/llm/.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

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
const std::string kNoCache = "no key/value cache is used", kCached = "each token computes only its position";

// Copies a folder, with the tokenizer of llama-int4, whose vocabulary all folders share.
std::string copied(const TempDir& f, const std::string& folder) {
  fs::copy(kFolders + folder, f / folder);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(kFolders + "llama-int4/" + file, f / (folder + "/" + file), fs::copy_options::overwrite_existing);
  return f / folder;
}

struct Generated {
  std::vector<json> texts;
  std::string err;
};

Generated generated(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"generate", model, "--json", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  const Said s = must_run(words);
  Generated out{{}, s.err};
  std::istringstream lines(s.out);
  for (std::string line; std::getline(lines, line);) out.texts.push_back(json::parse(line));
  return out;
}

template <class F>
void change(const std::string& folder, F&& f) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(folder + "/model.onnx")));
  f(*m.mutable_graph());
  write_bytes(folder + "/model.onnx", m.SerializeAsString());
}

}  // namespace

TEST_CASE("tokens with a cache equal those of whole texts", "[llm]") {
  const std::string folder = GENERATE("llama-int4", "llama-int4-qdq", "mistral-int4", "qwen3-fp32", "optimum-llama");
  INFO(folder);
  const TempDir f;
  const std::string model = copied(f, folder);
  // The second prompt is longer than an attention window of 16 tokens. The answers grow the cache beyond its first
  // capacity, 64 positions.
  std::vector<std::string> words = {
      "--prompt", "This", "--prompt", "The city of the north and the river in the south", "--max_new_tokens", "90"};
  const Generated with = generated(model, words);
  words.insert(words.end(), {"--use_cache", "false"});
  const Generated without = generated(model, words);
  CHECK_THAT(with.err, !ContainsSubstring(kNoCache));
  CHECK_THAT(with.err, ContainsSubstring(kCached));
  CHECK_THAT(with.err, !ContainsSubstring("are empty"));
  CHECK_THAT(without.err, !ContainsSubstring(kCached));
  REQUIRE(with.texts.size() == 2);
  REQUIRE(without.texts.size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(with.texts[i]["ids"] == without.texts[i]["ids"]);
  CHECK(with.texts[0]["ids"].size() > 66);
}

TEST_CASE("a graph whose attention sees unused positions of a cache computes whole texts", "[llm]") {
  const TempDir f;
  const std::string model = copied(f, "optimum-llama");
  // The mask consists of ones, whatever the input is. Whole texts use causal attention, so no token attends to padding.
  change(model, [](onnx::GraphProto& g) {
    for (auto& n : *g.mutable_node()) {
      for (auto& x : *n.mutable_input()) {
        if (x == "attention_mask") x = "ones";
      }
    }
    auto* const shape = g.add_node();
    shape->set_op_type("Shape");
    shape->add_input("attention_mask");
    shape->add_output("mask_shape");
    auto* const ones = g.add_node();
    ones->set_op_type("ConstantOfShape");
    ones->add_input("mask_shape");
    ones->add_output("ones");
    auto* const value = ones->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    value->mutable_t()->add_dims(1);
    value->mutable_t()->set_data_type(onnx::TensorProto::INT64);
    value->mutable_t()->add_int64_data(1);
  });
  const Generated with = generated(model, {"--prompt", "This", "--max_new_tokens", "12"});
  CHECK_THAT(with.err, ContainsSubstring(kNoCache));
  CHECK_THAT(with.err, !ContainsSubstring(kCached));
  CHECK(with.texts[0]["ids"] ==
        generated(model, {"--prompt", "This", "--max_new_tokens", "12", "--use_cache", "false"}).texts[0]["ids"]);
}

TEST_CASE("a chat prompt is written by the folder's template, and the folder's end tokens end the answer", "[llm]") {
  const TempDir f;
  const std::string model = copied(f, "llama-int4");
  const std::string message = "What?", conversation = R"([{"role": "user", "content": "What?"}])",
                    written = "<|im_start|>user\nWhat?<|im_end|>\n<|im_start|>assistant\n";
  const auto ids = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--max_new_tokens", "8"});
    return generated(model, words).texts[0];
  };
  const json chat = ids({"--chat", "--prompt", message});
  CHECK(chat["ids"] == ids({"--chat", "--prompt", conversation})["ids"]);
  CHECK(chat["ids"] == ids({"--prompt", written})["ids"]);
  CHECK(chat["answer"].get<std::string>().size() < chat["text"].get<std::string>().size());
  CHECK(must_run({"generate", model, "--chat", "--prompt", message, "--max_new_tokens", "8"}).out ==
        chat["answer"].get<std::string>() + "\n");
  // Makes the third new token an end-of-text token, in one of the two files.
  REQUIRE(chat["new_tokens"] == 8);
  const json third = chat["ids"][chat["ids"].size() - 6];
  json genai = json::parse(bytes_of(model + "/genai_config.json"));
  SECTION("genai_config.json") {
    genai["model"]["eos_token_id"] = {2, third};
    write_bytes(model + "/genai_config.json", genai.dump());
  }
  SECTION("generation_config.json") {
    write_bytes(model + "/generation_config.json", json({{"eos_token_id", third}}).dump());
  }
  const json ended = ids({"--chat", "--prompt", message});
  CHECK(ended["ended"] == true);
  CHECK(ended["new_tokens"] <= 3);
  CHECK(ended["ids"].back() == third);
}

TEST_CASE("a run answers its sample prompts at each evaluation", "[llm]") {
  const TempDir f;
  const std::string model = copied(f, "qwen3-fp32");
  const std::string message = R"([{"role": "user", "content": "What?"}])";
  write_bytes(f / "chat.jsonl", R"({"messages": [{"role": "user", "content": "What?"}, )"
                                R"({"role": "assistant", "content": "This is this."}]})"
                                "\n");
  write_bytes(f / "prompts.txt", "This\n\n" + message + "\n");
  const std::vector<std::string> train = {
      model,       "--train", f / "chat.jsonl", "--val", f / "chat.jsonl", "--max_steps", "4", "--eval_steps", "2",
      "--threads", "1",       "--lr",           "0.01",  "--output_dir",   f / "run"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = train;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  must_run(with({"--sample_prompts", f / "prompts.txt", "--sample_prompts", "Is", "--sample_new_tokens", "7"}));
  const json answers = json::parse(bytes_of(f / "run/answers.json"));
  CHECK(answers["prompts"] == json({"This", message, "Is"}));
  std::vector<int> steps;
  for (const json& e : answers["evaluations"]) steps.push_back(e["step"]);
  CHECK(steps == std::vector<int>{0, 1, 2, 3, 4});
  // The last answers of the training run equal those of the exported model.
  const json& last = answers["evaluations"].back()["answers"];
  const auto answer = [&](const std::vector<std::string>& words) {
    return generated(f / "run", words).texts[0]["answer"];
  };
  CHECK(last[0] == answer({"--prompt", "This", "--max_new_tokens", "7"}));
  CHECK(last[1] == answer({"--chat", "--prompt", message, "--max_new_tokens", "7"}));
  CHECK(last[1] != answers["evaluations"][0]["answers"][1]);
  CHECK_THAT(bytes_of(f / "run/report.html"), ContainsSubstring("\"answers\":{\"evaluations\""));

  const Said longer = run_verb(with({"--overwrite", "--sample_prompts", "This", "--sample_new_tokens", "100000"}));
  CHECK(longer.id == "E_DATA_LENGTH");
  CHECK_THAT(longer.hint, ContainsSubstring("sample_new_tokens"));
  write_bytes(f / "empty.txt", "\n");
  CHECK(run_verb(with({"--overwrite", "--sample_prompts", f / "empty.txt"})).id == "E_FLAG_VALUE");
}
