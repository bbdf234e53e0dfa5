// A run's weights as a Hugging Face checkpoint: export_checkpoint(), and the errors of `export --to huggingface`.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/safetensors.h"
#include "importer/read/import.h"
#include "run/export/export.h"
#include "run/export/weights.h"
#include "run/model/build.h"
#include "run/spec/spec.h"
#include "run/train/train.h"
#include "tests/errors.h"
#include "tests/run/outputs_of.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
namespace fs = std::filesystem;

namespace {

// Trains the small BERT of tests/data/models for three steps on its golden batch. A tokenizer file is next to the
// model.
void train_classifier(const TempDir& f) {
  fs::create_directory(f / "start");
  convert_checkpoint({.model = test::test_data("models/bert_classifier")}, f / "start/model.onnx");
  std::ofstream(f / "start/chat_template.jinja") << "a template";
  std::vector<NamedTensor> batch{{"label", HostTensor::of<int64_t>({2}, {0, 2})}};
  for (const NamedTensor& t : read_safetensors(test::test_data("models/bert_classifier/golden.safetensors")).tensors) {
    if (t.name.starts_with("in/")) batch.push_back({t.name.substr(3), t.tensor});
  }
  write_safetensors(f / "batch.safetensors", batch);
  RunSpec spec;
  spec.model.model = f / "start/model.onnx";
  spec.data.train = f / "batch.safetensors";
  spec.objective.loss = {"cross_entropy"};
  spec.output.output_dir = f / "run";
  spec.schedule.max_steps = 3;
  spec.optimization.lr = 1e-2;
  spec.device.device = "cpu";
  train(*prepare(spec, {}));
}

}  // namespace

TEST_CASE("an exported file that computes something else is refused") {
  const std::string entry = test::test_data("zoo/lenet_relu_dyn18");
  const Imported model = import_model(entry + "/model.onnx");
  Session session(model.graph, {});
  Tensors batch;
  for (const NamedTensor& t : read_safetensors(entry + "/batch.safetensors").tensors) batch[t.name] = t.tensor;
  LossSpec loss;
  loss.kind = "cross_entropy";
  loss.outputs = {model.graph.values[static_cast<size_t>(model.graph.outputs[0])].name};
  ExportReference reference = export_reference(session, loss, batch);
  CHECK(compare_export(reference, {entry + "/model.onnx", ""}, loss, "fp32") < 1e-5);
  HostTensor& out = reference.outputs.at(loss.outputs[0]);
  std::vector<float> moved(out.as<float>(), out.as<float>() + out.numel());
  moved[0] += 1;
  out = HostTensor::of<float>(out.dims(), moved);
  test::expect_error(
      "E_EXPORT_CHECK", "differs from the trained one by 1",
      [&] {
        compare_export(reference, {entry + "/model.onnx", ""}, loss, "fp32");
      },
      Exit::internal);
}

TEST_CASE("a run's weights go back to the checkpoint they came from, under its names") {
  const TempDir f;
  train_classifier(f);
  const ExportedRun done = export_checkpoint(f / "run", "last", f / "back");
  CHECK(done.step == 3);
  CHECK(done.difference.value() < 1e-5);
  CHECK(read_file(f / "back/chat_template.jinja").text() == "a template");
  // No intermediate model file is left.
  for (const auto& e : fs::directory_iterator(f.path)) CHECK(e.path().extension() != ".onnx");
  // A model that is converted from the folder has the same bits as the run's model.
  convert_checkpoint({.model = f / "back"}, f / "again.onnx");
  const SafeTensors before = read_safetensors(test::test_data("models/bert_classifier/model.safetensors"));
  const SafeTensors after = read_safetensors(f / "back/model.safetensors");
  CHECK(before.tensors.size() == after.tensors.size());
  int moved = 0;
  for (const NamedTensor& t : before.tensors) {
    INFO(t.name);
    const HostTensor* now = after.find(t.name);
    REQUIRE(now);
    CHECK(now->dims() == t.tensor.dims());
    moved += now->to_doubles() != t.tensor.to_doubles();
  }
  CHECK(moved > 20);
  Tensors batch;
  for (const NamedTensor& t : read_safetensors(f / "batch.safetensors").tensors) {
    if (t.name != "label") batch[t.name] = t.tensor;
  }
  const Tensors ours = test::outputs_of(import_model(f / "run/model.onnx"), batch),
                theirs = test::outputs_of(import_model(f / "again.onnx"), batch);
  CHECK(ours.at("logits").to_doubles() == theirs.at("logits").to_doubles());
}

TEST_CASE("a run of a model that no checkpoint was made of is refused, and leaves nothing") {
  const TempDir f;
  for (const char* name : {"model.onnx", "batch.safetensors"})
    fs::copy_file(test::test_data("zoo/lenet_relu_dyn18") + "/" + name, f / name);
  RunSpec spec;
  spec.model.model = f / "model.onnx";
  spec.data.train = f / "batch.safetensors";
  spec.objective.loss = {"cross_entropy"};
  spec.output.output_dir = f / "run";
  spec.schedule.max_steps = 1;
  spec.device.device = "cpu";
  train(*prepare(spec, {}));
  const Error e = error_of([&] { export_checkpoint(f / "run", "last", f / "back"); });
  CHECK(e.id() == "E_NOT_CONVERTED");
  CHECK_FALSE(fs::exists(f / "back"));
  CHECK_FALSE(fs::exists(f / ".back.onnx"));
}
