// Trains LeNet from memory through the C++ layer of an installed library.
//   consumer MODEL.onnx FOLDER
// It exits with 0 if the loss has decreased and an error arrives as an exception.
#include <cstdio>
#include <onnx_amp/onnx_amp.hpp>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const std::string model = argv[1], folder = argv[2];
  std::vector<float> pixels(8 * 28 * 28);
  std::vector<std::int64_t> labels(8);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7919 % 2048) / 1024.0F - 1.0F;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 4);
  const onnx_amp::Batch batch{onnx_amp::tensor("input", {8, 1, 28, 28}, pixels.data()),
                              onnx_amp::tensor("label", {8}, labels.data())};
  int steps = 0;
  onnx_amp::Options options;
  options.progress = [&](const onnx_amp_progress&) { ++steps; };
  onnx_amp::Session session(
      "{\"model\": \"" + model +
          "\", \"loss\": \"cross_entropy\", \"max_steps\": 20, \"lr\": 0.002, \"device\": \"cpu\"}",
      options);
  session.prepare(batch);
  const double before = session.eval_step(batch).loss;
  for (int i = 0; i < 20; ++i) session.train_step({batch});
  const double after = session.eval_step(batch).loss;
  const std::string metrics = session.eval_finish();
  session.export_model(folder + "/trained.onnx");
  std::printf("loss %g before, %g after; %s\n", before, after, metrics.c_str());
  if (!(after < before) || steps != 20) return 1;
  try {
    session.train_step({{onnx_amp::tensor("label", {8}, labels.data())}});
    return 1;
  } catch (const onnx_amp::Error& e) {
    return e.status() == ONNX_AMP_DATA && e.id() == "E_DATA_COLUMN" ? 0 : 1;
  }
} catch (const onnx_amp::Error& e) {
  std::fprintf(stderr, "%s: %s\n%s\n", e.id().c_str(), e.what(), e.hint().c_str());
  return 1;
}
