// Losses of preferences with models whose graph fixes the number of rows, with several ranks and with a gradient cache.
// A sample of these losses has two rows.
#include <catch2/catch_all.hpp>
#include <cmath>
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

// A folder of a decoder. fixed_rows > 0: a sum with zeros (rows, 1, H) fixes the rows of a batch.
std::string decoder(const TempDir& f, const std::string& name, int64_t fixed_rows) {
  const std::string folder = f / name;
  fs::copy("tests/data/llm/qwen3-fp32", folder);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(std::string("tests/data/llm/llama-int4/") + file, folder + "/" + file);
  if (fixed_rows == 0) return folder;
  constexpr int kWidth = 64;
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(folder + "/model.onnx")));
  const std::string embedded = "/model/embed_tokens/Gather/output_0";
  onnx::TensorProto& zeros = *m.mutable_graph()->add_initializer();
  zeros.set_name("zeros");
  zeros.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : {fixed_rows, int64_t{1}, int64_t{kWidth}}) zeros.add_dims(d);
  zeros.set_raw_data(std::string(static_cast<size_t>(fixed_rows) * kWidth * sizeof(float), '\0'));
  for (auto& node : *m.mutable_graph()->mutable_node()) {
    for (auto& input : *node.mutable_input()) {
      if (input == embedded) input = "fixed";
    }
  }
  onnx::NodeProto& sum = *m.mutable_graph()->add_node();  // import sorts the nodes
  sum.set_op_type("Add");
  sum.add_input(embedded);
  sum.add_input("zeros");
  sum.add_output("fixed");
  write_bytes(folder + "/model.onnx", m.SerializeAsString());
  return folder;
}

std::string rows_for(const TempDir& f, const std::string& loss) {
  const bool marked = loss == "kto";
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const std::string good = i % 3 ? "A river in the south." : "There.", bad = i % 2 ? "No." : "The city of the north.";
    json row = {{"prompt", i % 2 ? "What is it?" : "Where?"}};
    if (marked) {
      row["completion"] = i % 2 ? good : bad;
      row["label"] = i % 2 == 1;
    } else {
      row["chosen"] = good;
      row["rejected"] = bad;
    }
    text += row.dump() + "\n";
  }
  write_bytes(f / (loss + ".jsonl"), text);
  return f / (loss + ".jsonl");
}

std::vector<std::string> command(const TempDir& f, const std::string& model, const std::string& loss,
                                 const std::vector<std::string>& more) {
  const std::string rows = rows_for(f, loss);
  std::vector<std::string> words = {model,  "--train",     rows,          "--val", rows,           "--loss", loss,
                                    "--lr", "0.003",       "--max_steps", "3",     "--threads",    "1",      "--lora",
                                    "r=4",  "--overwrite", "--seed",      "3",     "--output_dir", f / "run"};
  if (model.find("fixed") != std::string::npos) words.insert(words.end(), {"--freeze", "zeros"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Trained {
  std::vector<double> losses;
  std::string said;
};

Trained trained(const TempDir& f, const std::string& model, const std::string& loss,
                const std::vector<std::string>& more) {
  const Said said = must_run(command(f, model, loss, more));
  Trained out{{}, said.out + said.err};
  for (const json& step : json_lines(f / "run/metrics.jsonl")) out.losses.push_back(step["loss"]);
  for (const json& eval : json_lines(f / "run/eval.jsonl")) out.losses.push_back(eval["loss"]);
  return out;
}

void check_same(const Trained& a, const Trained& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  REQUIRE(a.losses.size() >= 4);
  for (size_t i = 0; i < a.losses.size(); ++i) CHECK(std::abs(a.losses[i] - b.losses[i]) < 1e-5);
}

}  // namespace

TEST_CASE("a model of fixed rows takes as many pairs of answers as fit", "[preference]") {
  const TempDir f;
  const std::string loss = GENERATE("kto", "dpo", "orpo", "simpo"), free = decoder(f, "free", 0);
  const int64_t rows = GENERATE(4, 5);
  INFO(loss << ", " << rows << " rows");
  const std::string fixed = decoder(f, "fixed", rows);
  // By default, batches are as large as the model's, and a step has the default number of 8 samples.
  const Trained run = trained(f, fixed, loss, {});
  CHECK_THAT(run.said, ContainsSubstring("--batch_size 2 --gradient_accumulation_steps 4"));
  check_same(run, trained(f, free, loss, {"--batch_size", "2", "--gradient_accumulation_steps", "4"}));
  const Said large = run_verb(command(f, fixed, loss, {"--batch_size", "3"}));
  CHECK(large.id == "E_BATCH_SIZE");
  CHECK_THAT(large.fact, ContainsSubstring("takes batches of 2, --batch_size is 3"));
}

TEST_CASE("ranks train preferences with a model of fixed rows", "[preference]") {
  const TempDir f;
  const std::string loss = GENERATE("kto", "dpo"), free = decoder(f, "free", 0), fixed = decoder(f, "fixed", 4);
  INFO(loss);
  const std::vector<std::string> ranks = {"--batch_size", "2", "--ranks", "2"};
  check_same(trained(f, fixed, loss, ranks), trained(f, free, loss, ranks));
}

TEST_CASE("a gradient cache refuses losses of preferences by name", "[preference]") {
  const TempDir f;
  const std::string free = decoder(f, "free", 0);
  const auto said = [&](const std::string& loss) {
    return run_verb(command(f, free, loss, {"--gradient_cache", "--gradient_accumulation_steps", "2"}));
  };
  const Said kto = said("kto");
  CHECK(kto.id == "E_GRADIENT_CACHE");
  CHECK_THAT(kto.fact, ContainsSubstring("z0 of kto"));
  for (const char* loss : {"dpo", "orpo", "simpo"}) {
    const Said other = said(loss);
    CHECK(other.id == "E_USAGE");
    CHECK_THAT(other.fact, ContainsSubstring(std::string(loss) + " takes each by itself"));
  }
}
