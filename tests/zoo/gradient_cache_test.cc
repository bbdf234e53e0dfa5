// Compares contrastive training by the gradient cache with transformers' BertModel on whole batches
// (tests/data/zoo/make_contrastive.py).
#include "trainer/loop/gradient_cache.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "importer/surgery/dropout.h"
#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"
#include "trainer/compile/host_terms.h"
#include "trainer/loop/step_engine.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Contrastive {
  Contrastive()
      : golden(test_data("zoo/minilm_embed_ts14")),
        file(read_safetensors(test_data("zoo/minilm_embed_ts14/contrastive.safetensors"))),
        run(nlohmann::json::parse(file.metadata.at("run"))) {}

  int64_t steps() const { return file.find("input_ids")->dims()[0]; }
  int64_t rows() const { return file.find("input_ids")->dims()[1]; }
  // Returns rows [begin, end) of the step's batch.
  Tensors batch(int64_t step, int64_t begin, int64_t end) const {
    Tensors out;
    for (const char* name : {"input_ids", "attention_mask"}) {
      const HostTensor& all = *file.find(name);
      const int64_t length = all.dims()[2];
      HostTensor t = HostTensor::empty(DType::i64, {end - begin, length});
      std::copy_n(all.as<int64_t>() + (step * rows() + begin) * length, t.numel(), t.as_mutable<int64_t>());
      out[name] = t;
    }
    out["token_type_ids"] = HostTensor::zeros(DType::i64, out.at("input_ids").dims());
    return out;
  }
  const std::vector<double> numbers(const char* key) const { return run.at(key).get<std::vector<double>>(); }

  Golden golden;
  SafeTensors file;
  nlohmann::json run;
};

}  // namespace

TEST_CASE("micro-batches with cached gradients train as PyTorch does on whole batches", "[gradient_cache]") {
  const Contrastive c;
  // Micro-batches of 8 rows (four pairs), or of 12 rows, with which the last micro-batch of a step is smaller.
  const int64_t each = GENERATE(8, 12);
  SessionOptions options;
  options.decay_exclude = DecayExclude::none;
  Session session(c.golden.model.graph, options);
  const Losses losses = LossSpec{"multiple_negatives", {"sentence_embedding"}};
  session.prepare(losses, c.batch(0, 0, each));
  OptimizerConfig sgd;
  sgd.rule = "sgd";
  sgd.settings.momentum = 0;
  ScheduleConfig schedule;
  schedule.kind = "constant";
  schedule.lr = c.run.at("lr");
  schedule.total_steps = c.steps();
  LossScaleConfig scale;
  scale.mode = LossScaleConfig::Mode::off;
  StepEngine engine(session, sgd, schedule, scale, losses, c.steps(), one_rank(), {.gradient_cache = true});
  const std::vector<double> want = c.numbers("losses"), narrow = c.numbers("losses_fp32");
  for (int64_t step = 0; step < c.steps(); ++step) {
    StepInput w;
    w.step = step;
    w.losses = &losses;
    LossAccumulator counted(losses);
    for (int64_t row = 0; row < c.rows(); row += each) {
      w.batches.push_back(c.batch(step, row, std::min(row + each, c.rows())));
      w.rows.push_back(std::min(each, c.rows() - row));
      counted.count(w.batches.back());
    }
    engine.submit(w, counted);
    const auto i = static_cast<size_t>(step);
    const double tolerance = std::max(1e-6, 10 * std::abs(narrow[i] - want[i]));  // ten times torch's fp32 error
    INFO("step " << step);
    CHECK(std::abs(engine.take(true)->loss - want[i]) <= tolerance);
  }
  size_t compared = 0;
  for (const NamedTensor& t : c.file.tensors) {
    if (t.name.rfind("after/", 0) != 0) continue;
    const int v = c.golden.model.graph.find(t.name.substr(6));
    REQUIRE(v >= 0);
    const std::vector<double> have = session.param(session.table().slot_of[static_cast<size_t>(v)]).to_doubles(),
                              after = t.tensor.to_doubles();
    const size_t stride = (have.size() + 63) / 64;
    REQUIRE(after.size() == (have.size() + stride - 1) / stride);
    double worst = 0;
    for (size_t i = 0; i < after.size(); ++i) worst = std::max(worst, std::abs(have[i * stride] - after[i]));
    INFO(t.name);
    CHECK(worst <= 10 * c.run.at("weights_fp32").get<double>());
    ++compared;
  }
  CHECK(compared == c.golden.grads.size());
}

// The model has attention, fused norms and dropout, and the rows have several lengths. The test runs with and without
// padding, in fp32 and under precision plans.
TEST_CASE("both passes of a cached micro-batch of a transformer give the same bits", "[gradient_cache]") {
  Contrastive c;
  SourceGraph& g = c.golden.model.graph;
  DropoutOptions d;
  d.ratio = 0.1;
  d.outputs = g.outputs;
  std::vector<std::string> notes;
  REQUIRE(insert_dropout(g, d, notes).size() == 7);  // the embeddings, and in each layer attention and two sums
  SessionOptions options;
  options.remove_padding = GENERATE(true, false);
  options.low = GENERATE(DType::f32, DType::f16, DType::bf16);
  if (is_low(options.low)) {
    for (const Decision& decision : decide(g, load_op_list("O1"), options.low).nodes)
      options.compute.push_back(dtype_of(decision.compute));
  }
  INFO(name_of(options.low) << ", padding removed: " << options.remove_padding);
  Session session(g, options);
  const Losses losses = LossSpec{"multiple_negatives", {"sentence_embedding"}};
  CHECK(session.packs(losses, c.batch(0, 0, 8)) == options.remove_padding);
  for (int64_t m = 0; m < 3; ++m) {
    const Tensors batch = c.batch(0, 8 * m, 8 * m + 8);
    session.state().samples_before = 8 * m;
    const HostTensor kept = session.launch_forward(losses, batch).read("sentence_embedding");
    HostTerms terms(session.device(), {1});
    const Program* micro = nullptr;
    session.launch_cached(losses, batch, terms, true, [&](Program& p) {
      p.set_input(cached_input(0, 0), HostTensor::zeros(DType::f32, kept.dims()));
      micro = &p;
    });
    const HostTensor again = micro->read("sentence_embedding");
    REQUIRE(again.bytes() == kept.bytes());
    CHECK(std::memcmp(again.data(), kept.data(), static_cast<size_t>(kept.bytes())) == 0);
  }
}
