// Folders of decoders with a key/value cache (tests/data/llm/): losses and gradients against PyTorch, every verb, and
// files that are damaged or cannot train.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

const std::string kFolders = "tests/data/llm/";

// Writes the tensors of a reference file except the gradients and the tensor named `without`. Returns all tensors of
// the reference file.
std::vector<NamedTensor> write_batch(const std::string& folder, const std::string& path,
                                     const std::string& without = "") {
  const std::vector<NamedTensor> all = read_tensor_file(folder + "/reference.safetensors");
  std::vector<NamedTensor> batch;
  for (const NamedTensor& t : all) {
    if (!t.name.starts_with("grad/") && t.name != "loss" && t.name != without) batch.push_back(t);
  }
  write_tensor_file(path, batch);
  return all;
}

double loss_in(const Said& said) {
  const size_t at = said.out.find("loss");
  return std::stod(said.out.substr(said.out.find_first_of("0123456789", at)));
}

std::vector<std::string> outputs_of(const std::string& path) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(path)));
  std::vector<std::string> out;
  for (const auto& o : m.graph().output()) out.push_back(o.name());
  return out;
}

void copy_folder(const std::string& from, const std::string& to) {
  fs::copy(kFolders + from, to);
  fs::remove(to + "/reference.safetensors");
}

// Changes the file model.onnx of a folder.
template <class F>
void change(const std::string& folder, F&& f) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(folder + "/model.onnx")));
  f(*m.mutable_graph());
  write_bytes(folder + "/model.onnx", m.SerializeAsString());
}

}  // namespace

TEST_CASE("folders of decoders have PyTorch's losses and gradients", "[llm]") {
  const auto [folder, gradients] =
      GENERATE(std::pair("llama-int4", 5), std::pair("llama-int4-qdq", 0), std::pair("mistral-int4", 0),
               std::pair("qwen3-fp32", 10), std::pair("optimum-llama", 6));
  INFO(folder);
  const TempDir f;
  const std::vector<NamedTensor> reference = write_batch(kFolders + folder, f / "batch.safetensors");
  const Said s = must_run({"grad", kFolders + folder, "--inputs", f / "batch.safetensors", "--loss", "causal_lm",
                           "--out", f / "grad.safetensors"});
  CHECK_THAT(s.err, ContainsSubstring("the caches of a past (4 inputs"));
  CHECK(std::abs(loss_in(s) - find_tensor(reference, "loss")->to_doubles()[0]) < 1e-6);
  const std::vector<NamedTensor> ours = read_tensor_file(f / "grad.safetensors");
  int compared = 0;
  for (const NamedTensor& t : reference) {
    if (!t.name.starts_with("grad/")) continue;
    INFO(t.name);
    const HostTensor* const own = find_tensor(ours, t.name.substr(5));
    REQUIRE(own);
    REQUIRE(own->dims() == t.tensor.dims());
    const std::vector<double> a = own->to_doubles(), b = t.tensor.to_doubles();
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(a[i] - b[i]));
      largest = std::max(largest, std::abs(b[i]));
    }
    CHECK(worst < 1e-5 * largest);
    ++compared;
  }
  CHECK(compared == gradients);
  // Integers and their scales are not trained.
  CHECK(std::none_of(ours.begin(), ours.end(), [](const NamedTensor& t) {
    return t.name.find("_scale") != std::string::npos || t.name.find("_Q4") != std::string::npos;
  }));
}

TEST_CASE("every verb takes the folder of a decoder, and the exported file keeps the caches", "[llm]") {
  const TempDir f;
  const std::string model = kFolders + "llama-int4";
  write_bytes(f / "chat.jsonl",
              R"({"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "This."}]})"
              "\n"
              R"({"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Here."}]})"
              "\n");
  const std::vector<std::string> data = {"--task", "language", "--text_columns", "messages", "--device", "cpu"};
  const auto with_data = [&](std::vector<std::string> words) {
    words.insert(words.end(), data.begin(), data.end());
    return must_run(words);
  };
  CHECK_THAT(must_run({"check", model}).out, ContainsSubstring("trains: yes"));
  must_run({"plan", model});
  with_data({"eval", model, "--val", f / "chat.jsonl"});
  with_data({"bench", model, "--train", f / "chat.jsonl", "--timed_steps", "1"});
  must_run({"generate", model, "--prompt", "This", "--max_new_tokens", "2"});
  const Said s = with_data({model, "--train", f / "chat.jsonl", "--max_steps", "2", "--batch_size", "2", "--lr", "0.1",
                            "--output_dir", f / "run"});
  CHECK_THAT(s.err, !ContainsSubstring("look like constants"));
  CHECK(outputs_of(f / "run/model.onnx") == outputs_of(model + "/model.onnx"));
  const Said before = with_data({"eval", model, "--val", f / "chat.jsonl"}),
             after = with_data({"eval", f / "run", "--val", f / "chat.jsonl"});
  CHECK(loss_in(after) < loss_in(before));
  must_run({"export", f / "run", "--out", f / "e.onnx"});
  CHECK(outputs_of(f / "e.onnx") == outputs_of(model + "/model.onnx"));
}

TEST_CASE("with `past` data the caches are inputs", "[llm]") {
  const TempDir f;
  const std::string model = kFolders + "optimum-llama";
  write_batch(model, f / "batch.safetensors");
  const std::vector<std::string> words = {"grad",   model,       "--inputs", f / "batch.safetensors",
                                          "--loss", "causal_lm", "--out",    f / "g.safetensors",
                                          "--past", "data"};
  const Said s = run_verb(words);
  CHECK(s.id == "E_INPUT");
  CHECK_THAT(s.fact, ContainsSubstring("past_key_values.0.key"));
}

TEST_CASE("a decoder's folder with other names is recognized by its structure", "[llm]") {
  const TempDir f;
  const std::string folder = f / "renamed";
  copy_folder("optimum-llama", folder);
  change(folder, [](onnx::GraphProto& g) {
    const auto renamed = [](const std::string& name) {
      return name.starts_with("past_key_values") || name.starts_with("present") ? "memory/" + name.substr(4) : name;
    };
    for (auto& i : *g.mutable_input()) i.set_name(renamed(i.name()));
    for (auto& o : *g.mutable_output()) o.set_name(renamed(o.name()));
    for (auto& n : *g.mutable_node()) {
      for (auto& x : *n.mutable_input()) x = renamed(x);
      for (auto& y : *n.mutable_output()) y = renamed(y);
    }
  });
  write_batch(kFolders + "optimum-llama", f / "batch.safetensors");
  write_batch(kFolders + "optimum-llama", f / "without_positions.safetensors", "position_ids");
  const auto run = [&](const std::string& model, const std::string& batch) {
    return must_run({"grad", model, "--inputs", f / batch, "--loss", "causal_lm", "--out", f / "g.safetensors"});
  };
  const Said with = run(kFolders + "optimum-llama", "batch.safetensors"),
             without = run(folder, "without_positions.safetensors");
  CHECK(loss_in(with) == loss_in(without));
  CHECK_THAT(without.err, ContainsSubstring("input 'position_ids' is not in the file"));
}

TEST_CASE("folders of decoders that cannot be trained say why", "[llm]") {
  const TempDir f;
  const std::string folder = f / "damaged";
  copy_folder("llama-int4", folder);
  const auto check_says = [&](const std::string& text) {
    const Said s = run_verb({"check", folder});
    CHECK_THAT(s.out + s.err + s.fact + s.hint, ContainsSubstring(text));
  };
  SECTION("a scale that is not finite") {
    change(folder, [](onnx::GraphProto& g) {
      for (auto& t : *g.mutable_initializer()) {
        if (t.name() != "model.layers.0.attn.o_proj.MatMul.weight_scales") continue;
        std::vector<float> scales(128, std::numeric_limits<float>::quiet_NaN());
        t.clear_external_data();
        t.set_data_location(onnx::TensorProto::DEFAULT);
        t.set_raw_data(scales.data(), scales.size() * sizeof(float));
      }
    });
    check_says("E_SCALE_NONFINITE: MatMulNBits: input 2 (of the quantized weight) holds nan at 0");
  }
  SECTION("scales of another number") {
    change(folder, [](onnx::GraphProto& g) {
      for (auto& n : *g.mutable_node()) {
        if (n.name() == "/model/layers.0/attn/o_proj/MatMul_Q4")
          n.set_input(2, "model.layers.0.attn.qkv_proj.MatMul.weight_scales");
      }
    });
    check_says("256 scales for 64 rows of 2 blocks");
  }
  SECTION("operators that only compute forward") {
    const auto [op, why] =
        GENERATE(std::pair("QMoE", "a mixture of experts"), std::pair("PagedAttention", "paged cache"),
                 std::pair("LinearAttention", "a recurrent state"));
    change(folder, [&, op = op](onnx::GraphProto& g) {
      for (auto& n : *g.mutable_node()) {
        if (n.name() == "/model/layers.1/mlp/down_proj/MatMul_Q4") n.set_op_type(op);
      }
    });
    check_says(op);
    check_says(why);
  }
  SECTION("a configuration whose model is not there") {
    fs::rename(folder + "/model.onnx", folder + "/other.onnx");
    const Said s = run_verb({"check", folder});
    CHECK(s.id == "E_RUN");
    CHECK_THAT(s.fact, ContainsSubstring("names the model 'model.onnx'"));
  }
  SECTION("a decoder in several files") {
    write_bytes(
        folder + "/genai_config.json",
        R"({"model": {"decoder": {"pipeline": [{"a": {"filename": "a.onnx"}}, {"b": {"filename": "b.onnx"}}]}}})");
    CHECK_THAT(run_verb({"check", folder}).fact, ContainsSubstring("a pipeline of 2 models"));
    write_bytes(folder + "/genai_config.json",
                R"({"model": {"decoder": {"filename": "model.onnx"}, "embedding": {"filename": "embedding.onnx"}}})");
    CHECK_THAT(run_verb({"check", folder}).fact, ContainsSubstring("embeddings that another model computes"));
    write_bytes(folder + "/genai_config.json", "{");
    CHECK_THAT(run_verb({"check", folder}).fact, ContainsSubstring("is not a JSON object"));
  }
}

namespace {

// Adds the input cache_position, whose positions replace those of the graph's position_ids.
void count_by_cache_position(onnx::GraphProto& g, const std::string& symbol, int type) {
  auto* const input = g.add_input();
  input->set_name("cache_position");
  auto* const tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape()->add_dim()->set_dim_param(symbol);
  for (auto& n : *g.mutable_node()) {
    for (auto& x : *n.mutable_input()) {
      if (x == "position_ids") x = "positions";
    }
  }
  const auto node = [&](const char* op, const std::vector<std::string>& in, const char* out) {
    auto* const n = g.add_node();
    n->set_op_type(op);
    n->set_name(out);
    for (const std::string& x : in) n->add_input(x);
    n->add_output(out);
    return n;
  };
  auto* const to = node("Cast", {"cache_position"}, "positions_int64")->add_attribute();
  to->set_name("to");
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(onnx::TensorProto::INT64);
  auto* const axes = g.add_initializer();
  axes->set_name("first_axis");
  axes->set_data_type(onnx::TensorProto::INT64);
  axes->add_dims(1);
  axes->add_int64_data(0);
  node("Unsqueeze", {"positions_int64", "first_axis"}, "positions");
}

}  // namespace

TEST_CASE("cache_position counts the positions of a whole sequence", "[llm]") {
  const auto [symbol, type] = GENERATE(std::pair("sequence_length", onnx::TensorProto::INT64),
                                       std::pair("another_name", onnx::TensorProto::INT32));
  INFO(symbol);
  const TempDir f;
  const std::string folder = f / "counted";
  copy_folder("optimum-llama", folder);
  change(folder, [&, symbol = symbol, type = type](onnx::GraphProto& g) { count_by_cache_position(g, symbol, type); });
  write_batch(kFolders + "optimum-llama", f / "batch.safetensors");
  write_batch(kFolders + "optimum-llama", f / "without.safetensors", "position_ids");
  const auto loss = [&](const std::string& model, const std::string& batch) {
    const Said s = must_run({"eval", model, "--val", f / batch, "--loss", "causal_lm", "--threads", "1"});
    CHECK((s.err.find("'cache_position' counts the positions") != std::string::npos) == (model == folder));
    return loss_in(s);
  };
  CHECK(loss(folder, "without.safetensors") == loss(kFolders + "optimum-llama", "batch.safetensors"));
  // Generation processes whole texts, and gives the tokens of the original model.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy(kFolders + "llama-int4/" + file, folder + "/" + file);
  const Said said = must_run({"generate", folder, "--prompt", "This", "--max_new_tokens", "9"});
  CHECK_THAT(said.err, ContainsSubstring("each token computes the whole text"));
  CHECK(said.out == must_run({"generate", kFolders + "optimum-llama", "--tokenizer", kFolders + "llama-int4",
                              "--prompt", "This", "--max_new_tokens", "9"})
                        .out);
  // The exported file still has the input.
  must_run({"train", folder, "--train", f / "without.safetensors", "--loss", "causal_lm", "--max_steps", "1",
            "--output_dir", f / "run", "--threads", "1"});
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(f / "run/model.onnx")));
  const auto& inputs = m.graph().input();
  CHECK(std::any_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.name() == "cache_position"; }));
}

TEST_CASE("inputs for inference that cannot be fed are refused by their names", "[llm]") {
  const TempDir f;
  const std::string folder = f / "changed";
  const auto refused = [&](const std::string& name, const std::string& why) {
    const Said s = run_verb({"check", folder});
    CHECK(s.code == 4);
    CHECK(s.id == "E_OP_CASE");
    CHECK_THAT(s.fact, ContainsSubstring("'" + name + "'") && ContainsSubstring(why));
    CHECK_FALSE(s.hint.empty());
  };
  SECTION("caches of 8 bits that attention reads") {
    copy_folder("llama-int4", folder);
    const auto type = GENERATE(onnx::TensorProto::INT8, onnx::TensorProto::UINT8);
    const bool configured = GENERATE(true, false);
    if (!configured) fs::remove(folder + "/genai_config.json");
    change(folder, [&](onnx::GraphProto& g) {
      for (auto& i : *g.mutable_input()) {
        if (i.name().starts_with("past_key_values")) i.mutable_type()->mutable_tensor_type()->set_elem_type(type);
      }
    });
    refused("past_key_values.0.key", "(and 3 more) has 8-bit integers");
  }
  SECTION("a cache of 8 bits that is dequantized") {
    copy_folder("optimum-llama", folder);
    change(folder, [](onnx::GraphProto& g) {
      for (auto& n : *g.mutable_node()) {
        for (auto& x : *n.mutable_input()) {
          if (x == "past_key_values.1.value") x = "dequantized";
        }
      }
      for (auto& i : *g.mutable_input()) {
        if (i.name() == "past_key_values.1.value")
          i.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT8);
      }
      auto* const scale = g.add_initializer();
      scale->set_name("scale");
      scale->set_data_type(onnx::TensorProto::FLOAT);
      scale->add_float_data(0.1f);
      auto* const n = g.add_node();
      n->set_op_type("DequantizeLinear");
      n->add_input("past_key_values.1.value");
      n->add_input("scale");
      n->add_output("dequantized");
    });
    refused("past_key_values.1.value", "8-bit integers");
  }
  SECTION("a choice between two graphs") {
    fs::create_directory(folder);
    write_bytes(folder + "/model.onnx", parse(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      merged (int64[B,S] input_ids, bool[1] use_cache_branch) => (float[B,S,3] logits)
      <float[5,3] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}> {
        logits = If (use_cache_branch) <
          then_branch = with () => (float[B,S,3] a) { a = Gather (table, input_ids) },
          else_branch = without () => (float[B,S,3] b) { b = Gather (table, input_ids) }>
      })")
                                            .SerializeAsString());
    refused("use_cache_branch", "only one of the two would train");
  }
}

TEST_CASE("left padding causes a warning if attention reads only lengths", "[llm]") {
  const auto [folder, warned] = GENERATE(std::pair("llama-int4", true), std::pair("optimum-llama", false));
  INFO(folder);
  const TempDir f;
  for (const size_t hidden : {0u, 3u}) {  // the mask hides this column of row 1
    std::vector<int64_t> mask(8, 1);
    mask[4 + hidden] = 0;
    write_tensor_file(f / "batch.safetensors",
                      {{"input_ids", HostTensor::of<int64_t>({2, 4}, {5, 6, 7, 8, 9, 10, 11, 12})},
                       {"attention_mask", HostTensor::of<int64_t>({2, 4}, mask)},
                       {"label", HostTensor::of<int64_t>({2, 4}, {5, 6, 7, 8, 9, 10, 11, 12})}});
    const Said s = must_run(
        {"eval", kFolders + folder, "--val", f / "batch.safetensors", "--loss", "causal_lm", "--threads", "1"});
    CHECK((s.err.find("W_LEFT_PADDING: row 1") != std::string::npos) == (warned && hidden == 0));
  }
}

TEST_CASE("an export never replaces the model that the run trained from", "[llm]") {
  const TempDir f;
  copy_folder("qwen3-fp32", f / "base");
  write_batch(kFolders + "qwen3-fp32", f / "batch.safetensors");
  must_run({"train", f / "base", "--train", f / "batch.safetensors", "--loss", "causal_lm", "--max_steps", "1",
            "--output_dir", f / "run", "--threads", "1"});
  const std::string before = bytes_of(f / "base/model.onnx.data");
  const Said s = run_verb({"export", f / "run", "--out", f / "base/model.onnx"});
  CHECK(s.code == 2);
  CHECK(s.id == "E_OUTPUT_INPUT");
  CHECK(bytes_of(f / "base/model.onnx.data") == before);
}
