// Models with reference results of PyTorch: losses, gradients and trajectories. Each is a folder with model.onnx,
// batch.safetensors, ref.safetensors (grad/NAME, every stride-th element) and ref.json.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "importer/read/import.h"
#include "trainer/compile/session.h"

namespace amp::test {

struct GoldenGrad {
  std::string name;         // name of the initializer
  std::vector<float> want;  // every stride-th element, in the initializer's layout
  int64_t stride = 1;
  double tolerance = 0;     // absolute: max(1e-5, 10 min(fp32 noise, 1e-2)) of the largest element, + 1e-7
  bool transposed = false;  // want contains the transpose
};

struct GoldenRun {  // losses[k]: before step k + 1; last element: after the last step
  double lr = 0, momentum = 0, weight_decay = 0;
  std::vector<double> losses, tolerance;
};

struct Golden {
  explicit Golden(const std::filesystem::path& dir);

  std::string name;
  Imported model;
  Tensors batch;
  LossSpec loss;
  bool batch_statistics = false;  // every reference value uses batch statistics in BatchNormalization
  double loss_fp32 = 0, loss_fp64 = 0;
  std::vector<GoldenGrad> grads;
  std::map<std::string, GoldenRun> runs;  // "sgd", "adamw"
};

// Returns the seed of each loss term: 1 / items, or half of it if there are two terms.
std::vector<double> seeds_of(const Golden& g);
// Returns the loss that results from the sums of run_micro_batch() or eval_micro_batch().
double loss_of(const Golden& g, const std::vector<double>& sums);

// Runs one forward and backward pass and returns the loss. Gradients remain in the session.
double run_gradients(Session& session, const Golden& g);

void check_loss(const Golden& g);                                      // fp32 within 1e-6, fp64 within 1e-8
void check_gradients(const Golden& g, Device& device = cpu_device());  // checks fp32 gradients
void check_trajectory(const Golden& g, const std::string& method, Device& device = cpu_device());

}  // namespace amp::test
