// State dicts as checkpoints: torchvision's and timm's models in real sizes, and LeNet, MLP, U-Net and networks for
// tables as commonly written in PyTorch. Checks names, shapes, outputs and the export back
// (tests/data/models/make_checkpoints.py; the weights are a formula that is computed here again).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "run/model/build.h"
#include "tests/errors.h"
#include "tests/run/outputs_of.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

using Shapes = std::map<std::string, Dims>;

struct Described {
  json config;  // config.json
  Shapes shapes;
};

// Returns a case by library and name: torchvision/resnet18.
std::map<std::string, Described> all_described() {
  std::map<std::string, Described> out;
  const json all = json::parse(std::ifstream(test::test_data("models/state_dicts.json")));
  for (const auto& [key, d] : all.items()) out[key] = {d.at("config"), d.at("shapes").get<Shapes>()};
  return out;
}

// Returns the same bits as filled() of make_checkpoints.py.
HostTensor filled(const std::string& name, const Dims& dims) {
  uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  HostTensor t = HostTensor::empty(DType::f32, dims);
  const bool matrix = t.numel() > dims[0];
  const double bound = std::sqrt(static_cast<double>(3 * dims[0]) / static_cast<double>(t.numel()));
  const bool shift = name.ends_with("bias") || name.ends_with("running_mean");
  for (int64_t i = 0; i < t.numel(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + h;
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    x ^= x >> 16;
    const double u = static_cast<double>(x) / 4294967296.0;
    const double w = matrix ? (2 * u - 1) * bound : shift ? 0.2 * (u - 0.5) : 0.5 + u;
    t.as_mutable<float>()[i] = static_cast<float>(w);
  }
  return t;
}

std::vector<NamedTensor> state_dict(const Shapes& shapes) {
  std::vector<NamedTensor> out;
  for (const auto& [name, dims] : shapes) out.push_back({name, filled(name, dims)});
  return out;
}

// Writes a folder for `convert`.
void write_folder(const TempDir& f, const json& config, const std::vector<NamedTensor>& tensors) {
  write_safetensors(f / "model.safetensors", tensors);
  std::ofstream(f / "config.json") << config;
}

// Returns the golden file's tensors with a name prefix, by the rest of the name.
Tensors tensors_of(const SafeTensors& golden, const std::string& begin) {
  Tensors out;
  for (const NamedTensor& t : golden.tensors) {
    if (t.name.starts_with(begin)) out[t.name.substr(begin.size())] = t.tensor;
  }
  return out;
}

}  // namespace

TEST_CASE("a state dict computes what PyTorch computes with it, and goes back as it was") {
  const SafeTensors golden = read_safetensors(test::test_data("models/state_dicts.safetensors"));
  for (const auto& [key, described] : all_described()) {
    DYNAMIC_SECTION(key) {
      const TempDir f;
      const std::vector<NamedTensor> tensors = state_dict(described.shapes);
      write_folder(f, described.config, tensors);
      convert_checkpoint({.model = f.path.string()}, f / "out/model.onnx");
      const Tensors have = test::outputs_of(import_model(f / "out/model.onnx"), tensors_of(golden, key + "/in/")),
                    wanted = tensors_of(golden, key + "/out/");
      REQUIRE(wanted.size() == 1);
      for (const auto& [name, value] : wanted) {
        const std::vector<double> want = value.to_doubles(), got = have.at(name).to_doubles();
        REQUIRE(have.at(name).dims() == value.dims());
        for (size_t i = 0; i < want.size(); ++i) {
          INFO(name << " " << i);
          CHECK(std::abs(got[i] - want[i]) < 1e-5);  // outputs are at most 2, computed by some fifty layers in fp32
        }
      }
      write_checkpoint(f / "out/model.onnx", f / "back");
      const SafeTensors back = read_safetensors(f / "back/model.safetensors");
      CHECK(back.tensors.size() == tensors.size());
      for (const NamedTensor& t : tensors) {
        INFO(t.name);
        const HostTensor* b = back.find(t.name);
        REQUIRE(b);
        CHECK(b->dims() == t.tensor.dims());
        CHECK(b->to_doubles() == t.tensor.to_doubles());
      }
    }
  }
}

TEST_CASE("weights of new ResNets and ConvNeXts are timm's by name and shape") {
  for (const auto& [key, described] : all_described()) {
    if (!key.starts_with("timm/")) continue;
    const TempDir f;
    create_model({.model = described.config.at("architecture").get<std::string>(), .config = R"({"num_classes": 3})"},
                 f / "m.onnx");
    Shapes have;
    for (const SourceValue& v : import_model(f / "m.onnx").graph.values) {
      if (v.data && v.name.find('/') == std::string::npos) have[v.name] = v.data.dims();
    }
    CHECK(have == described.shapes);
  }
}

TEST_CASE("a state dict that lacks a tensor, or has one of another shape, is refused by name; nothing is written") {
  const std::map<std::string, Described> all = all_described();
  for (const auto& [key, lost] :
       std::map<std::string, std::string>{{"torchvision/convnext_tiny", "features.3.1.layer_scale"},
                                          {"torchvision/resnet18", "layer2.0.bn2.weight"}}) {
    for (const bool missing : {true, false}) {
      std::vector<NamedTensor> tensors;
      for (const auto& [name, dims] : all.at(key).shapes) {
        if (name != lost || !missing) tensors.push_back({name, HostTensor::zeros(DType::f32, dims)});
        if (name == lost && !missing) tensors.back().tensor = HostTensor::zeros(DType::f32, {5});
      }
      const TempDir f;
      write_folder(f, all.at(key).config, tensors);
      const Error e = error_of([&] { convert_checkpoint({.model = f.path.string()}, f / "out/model.onnx"); });
      CHECK(e.exit() == Exit::data);
      CHECK_THAT(std::string(e.what()), ContainsSubstring(lost));
      CHECK_FALSE(std::filesystem::exists(f.path / "out"));
    }
  }
}
