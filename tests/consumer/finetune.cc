// A program that uses the library like another project would: one include path, one target (onnx_amp).
//   finetune MODEL.onnx DATA.safetensors RUN_FOLDER
// trains a sentence encoder on pairs and their similarity. It exits with 0 if the loss on the data has decreased.
#include <cstdio>

#include "run/run.h"

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  amp::RunSpec spec;
  spec.model.model = argv[1];
  spec.data.train = spec.data.val = argv[2];
  spec.output.output_dir = argv[3];
  spec.objective.loss = {"cosine_mse"};
  spec.data.shuffle = false;  // a pair consists of two consecutive rows
  spec.optimization.optimizer = "adamw";
  spec.optimization.lr = 1e-3;
  spec.schedule.max_steps = 10;
  spec.precision.use_bf16 = true;
  spec.device.device = "cpu";
  spec.output.overwrite = true;
  amp::Host host;
  host.log = amp::Log([](amp::Level, const std::string& text) { std::printf("%s\n", text.c_str()); });
  const auto run = amp::prepare(spec, host);
  const amp::TrainReport report = amp::train(*run);
  const double before = report.result.initial->loss, after = report.result.last->loss;
  std::printf("loss %g before, %g after: %s\n", before, after, report.model.c_str());
  return after < before ? 0 : 1;
} catch (const amp::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return static_cast<int>(e.exit());
}
