// Tests what a run that trains only LoRA adapters stores in memory and in checkpoints, and that it resumes bit by bit.
#include <cstring>

#include "data/tensor_dataset.h"
#include "importer/surgery/dropout.h"
#include "importer/surgery/lora.h"
#include "surgery.h"
#include "tests/support.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Run {
  explicit Run(int64_t steps) {
    model = import_model(kData + "bert.onnx");
    std::vector<std::string> lines;
    DropoutOptions d;
    d.ratio = 0.1;
    d.outputs = {model.graph.find("logits")};
    REQUIRE(!insert_dropout(model.graph, d, lines).empty());  // dropout makes the run depend on its random bits
    adapters = add_lora(model.graph, parse_lora("r=4,targets=*query.weight,targets=*value.weight")).adapters;
    std::vector<NamedTensor> columns;
    for (const auto& [name, t] : pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask", "label"}))
      columns.push_back({name, t});
    std::vector<InputSpec> inputs(2);
    inputs[0].name = "input_ids";
    inputs[1].name = "attention_mask";
    for (InputSpec& i : inputs) i.dtype = DType::i64;
    TensorOptions t;
    t.batch_size = 2;
    data = make_tensor_dataset(columns, "batch", inputs, t);
    session = std::make_unique<Session>(model.graph, SessionOptions{});
    config.objective.losses = LossSpec{"cross_entropy", {"logits"}};
    config.optimizer.ema_decays = {0.9};
    config.schedule.lr = 0.05;
    config.schedule.total_steps = 6;
    config.max_steps = steps;
    config.scale.mode = LossScaleConfig::Mode::off;
    config.sampler.batch_size = 2;
    config.output_dir = folder.path.string();
  }

  // Trains and returns the parameters, followed by the averages of the trained parameters.
  std::vector<float> run(const Checkpoint* from = nullptr) {
    SamplerOptions first = config.sampler;
    Sampler sampler(data->size(), data->lengths(), first);
    session->prepare(config.objective.losses, to_tensors(load_window(*data, sampler.next()).batches.at(0), nullptr));
    const StopSignals stop;
    Trainer trainer(*session, *data, nullptr, stop, config);
    if (from) trainer.resume(*from);
    trainer.run();
    const FlatLayout& layout = session->layout();
    const auto* p = static_cast<const float*>(session->params());
    std::vector<float> out(p, p + layout.size());
    const HostTensor ema = trainer.average(0);
    out.insert(out.end(), ema.as<float>(), ema.as<float>() + layout.trained_size());
    return out;
  }

  std::string exported() {
    export_model(*model.doc, model.graph, merge_lora(model.graph, adapters, all_parameters(*session)), {},
                 folder / "out.onnx");
    std::ifstream in(folder / "out.onnx", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Checkpoint latest() const { return find_latest(folder / "checkpoints").checkpoint; }

  Imported model;
  std::vector<LoraAdapter> adapters;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Session> session;
  TrainerConfig config;
  TempDir folder;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a resumed run of adapters ends in the same bytes") {
  Run whole(6), half(3), rest(6);
  const std::vector<float> want = whole.run();
  half.run();
  const Checkpoint c = half.latest();
  CHECK(c.step == 3);
  const std::vector<float> got = rest.run(&c);
  CHECK(same(got, want));
  CHECK(rest.exported() == whole.exported());
  CHECK(rest.exported() != half.exported());
}

TEST_CASE("adapters alone have gradients, moments and a place in the checkpoint") {
  Run r(2);
  r.run();
  const FlatLayout& layout = r.session->layout();
  CHECK(layout.trained_size() * 5 < layout.size());
  size_t trained = 0;
  for (const Chunk& c : layout.chunks()) {
    CHECK(c.frozen == (c.name.find(".lora_") == std::string::npos));
    trained += !c.frozen;
    CHECK((c.offset < layout.trained_size()) == !c.frozen);
  }
  CHECK(trained == 8);
  CHECK(r.latest().tensors.size() == 4 * trained);  // for each trained tensor: param, m, v, ema
  CHECK(error_of([&] { r.session->grad(0); }).exit() == Exit::internal);
}

TEST_CASE("a checkpoint that holds frozen weights too resumes; one that lacks a trained weight does not") {
  Run whole(6), half(3), rest(6), broken(6);
  const std::vector<float> want = whole.run();
  half.run();
  Checkpoint c = half.latest();
  for (const Chunk& chunk : half.session->layout().chunks()) {  // earlier versions also wrote frozen weights
    if (!chunk.frozen) continue;
    for (const char* what : {"m/", "v/", "ema/", "param/"})
      c.tensors[what + chunk.name] = HostTensor::zeros(DType::f32, chunk.dims);
  }
  CHECK(same(rest.run(&c), want));
  c.tensors.erase("v/" + whole.session->layout().chunks().back().name);
  const Error e = error_of([&] { broken.run(&c); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK(e.id() == "E_CKPT_MISMATCH");
}

TEST_CASE("a session that does not train has no gradients") {
  const Imported m = import_model(kData + "bert.onnx");
  Session s(m.graph, {});
  s.forward({m.graph.find("logits")}, pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask"}));
  CHECK(s.grads() == nullptr);
  CHECK(s.memory_text().find("gradients") == std::string::npos);
}
