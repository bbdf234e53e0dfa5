// Compares the dropout that is inserted into models exported without it with training-mode exports of the same modules.
#include "importer/surgery/dropout.h"

#include <set>

#include "surgery.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::vector<DropoutSpot> spots_of(SourceGraph& g, double ratio = 0.1, bool asked = true) {
  DropoutOptions o;
  o.ratio = ratio;
  o.asked = asked;
  o.outputs = g.outputs;
  std::vector<std::string> notes;
  return insert_dropout(g, o, notes);
}

// Removes the last operator from the name, because the tensor after a Reshape or a Cast has the name of another node.
std::string plain(std::string name) {
  for (const char* view : {"/Reshape_1", "/Gemm", "/Cast_1", "/Cast", "/Softmax"}) {
    const size_t at = name.rfind(view);
    if (at != std::string::npos && at + std::string(view).size() == name.size()) return name.substr(0, at);
  }
  return name;
}

}  // namespace

TEST_CASE("dropout stands where the training-mode export has it") {
  // Known differences from the export for each model: dropouts that are added, and dropouts that are missing.
  const std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> known = {
      {"distilbert", {{"attention/out_lin/Add"}, {}}},  // added: the exported attention output has none
      {"albert", {{"albert_layers.0/ffn_output/Add", "albert_layers.0/ffn_output_1/Add"}, {}}},
      {"electra", {{}, {"/m/classifier/Gather"}}},  // missing: the first dropout of the head, before the dense layer
      {"t5_encoder",
       // missing: in the feed-forward layer, and at the end.
       {{}, {"DenseReluDense/act/Relu", "final_layer_norm/Mul_1"}}},
  };
  const nlohmann::json exports = json_of("dropout.json");
  for (const auto& [name, places] : exports.items()) {
    DYNAMIC_SECTION(name) {
      Imported m = import_model(kData + name + ".onnx");
      std::set<std::string> want, have;
      for (const auto& p : places) want.insert(plain(p.get<std::string>()));
      const auto spots = spots_of(m.graph);
      for (const DropoutSpot& s : spots) have.insert(plain(s.node));
      const auto it = known.find(name);
      const auto excused = [&](const std::string& n, bool extra) {
        if (it == known.end()) return false;
        const auto& set = extra ? it->second.first : it->second.second;
        return std::any_of(set.begin(), set.end(), [&](const std::string& end) {
          return n.size() >= end.size() && n.compare(n.size() - end.size(), end.size(), end) == 0;
        });
      };
      for (const std::string& n : want) {
        INFO("missing: " << n);
        CHECK((have.count(n) || excused(n, false)));
      }
      for (const std::string& n : have) {
        INFO("extra: " << n);
        CHECK((want.count(n) || excused(n, true)));
      }
    }
  }
}

TEST_CASE("models without attention, and modern ones that never had dropout, get none unasked") {
  for (const char* name : {"lenet_relu_dyn18", "autoencoder_ts11", "sklearn_mlp_hand15"}) {
    Imported m = import_model(kZoo + name + "/model.onnx");
    CHECK(spots_of(m.graph).empty());
  }
}

TEST_CASE("inserted dropout acts in training only, is drawn anew every step, and leaves the mean") {
  Imported m = import_model(kData + "bert.onnx"), plain_model = import_model(kData + "bert.onnx");
  REQUIRE(spots_of(m.graph, 0.3).size() == 8);
  LossSpec loss;
  loss.outputs = {"logits"};
  const Tensors batch = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask", "label"});
  Session with(m.graph, {}), without(plain_model.graph, {});
  CHECK(with.eval_micro_batch(loss, batch) == without.eval_micro_batch(loss, batch));
  std::set<double> seen;
  for (int step = 0; step < 5; ++step) {
    with.state().step = step;
    seen.insert(step_loss(with, loss, batch));
  }
  CHECK(seen.size() == 5);
  with.state().step = 2;
  CHECK(seen.count(step_loss(with, loss, batch)) == 1);
}

TEST_CASE("a spot drops its share, another one differently") {
  Imported m = import_model(kData + "bert.onnx");
  spots_of(m.graph, 0.25);
  LossSpec loss;
  loss.outputs = {"logits"};
  const Tensors batch = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask", "label"});
  Session s(m.graph, {});
  const auto graph = s.train_graph(loss, batch);
  std::set<int64_t> sites;
  int forward = 0, backward = 0;
  for (int32_t n = 0; n < graph->n_nodes(); ++n) {
    const Node& node = graph->node(NodeId{n});
    // FusedAttention applies the dropout of attention's probabilities.
    if (node.op->name != "Dropout" && node.op->name.rfind("FusedAttention", 0) != 0) continue;
    CHECK(node.attrs.f("ratio", 0) == 0.25);
    (std::string(node.origin.role).empty() ? forward : backward) += 1;
    sites.insert(node.attrs.i("site", 0));
  }
  CHECK(forward == 8);
  CHECK(backward == 8);
  CHECK(sites.size() == 8);
}

TEST_CASE("the exported file holds no inserted dropout") {
  const TempDir f;
  Imported m = import_model(kData + "bert.onnx");
  spots_of(m.graph);
  export_model(*m.doc, m.graph, {}, {}, f / "out.onnx");
  std::ifstream a(f / "out.onnx", std::ios::binary), b(kData + "bert.onnx", std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(a), {}) == std::string(std::istreambuf_iterator<char>(b), {}));
}

TEST_CASE("Dropout nodes of the file act with the file's ratio") {
  Imported m = import_model(test_data("importer/struct_optional_hand17.onnx"));
  const auto spots = spots_of(m.graph, 0.2);
  REQUIRE(spots.size() == 1);
  CHECK(spots[0].kind == "file");
  CHECK(describe_dropout(spots).at(0).find("the file's own nodes: 1") != std::string::npos);
}
