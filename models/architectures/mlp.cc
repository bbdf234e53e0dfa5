// Networks for tables. mlp takes numbers. tabular takes categories and numbers: embeddings are concatenated with
// normalized numeric columns, as in fastai's TabularModel and in Guo and Berkhahn 2016 (arXiv 1604.06737).
#include <cmath>
#include <optional>

#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

// Adds torch.nn.Dropout, which is active only in training.
NetValue dropout(Net& net, NetValue x, const ModelConfig& c, const char* key, const std::string& module) {
  const double ratio = c.number(key, 0);
  if (ratio < 0 || ratio >= 1) c.refuse(key, "expected at least 0 and less than 1");
  return ratio > 0 ? net.op("Dropout", module, {x, net.number(module, ratio)}) : x;
}

NetValue layers(Net& net, NetValue x, const ModelConfig& c, int64_t width) {
  const std::string act = c.text("activation", "relu");
  const bool norms = c.flag("batch_norm", false);
  int64_t number = 0;
  for (const int64_t next : c.integers("hidden", {})) {
    const std::string at = cat("layers.", number++);
    x = net.activation(torch_linear(net, x, at + ".linear", width, next), act, at);
    if (norms) x = batch_norm(net, x, at + ".norm", next);
    x = dropout(net, x, c, "dropout", at);
    width = next;
  }
  return torch_linear(net, x, "out", width, c.positive("outputs"));
}

void build_mlp(Net& net, const ModelConfig& c, Head) {
  const int64_t width = c.positive("inputs");
  const NetValue x = net.input("features", DType::f32, rows_by(width));
  net.output(layers(net, x, c, width), "logits", rows_by(c.positive("outputs")));
}

void build_tabular(Net& net, const ModelConfig& c, Head) {
  const std::vector<int64_t> sizes = c.integers("categories", {});
  std::vector<int64_t> widths = c.integers("embedding", {});
  if (widths.empty()) {  // fastai's rule for the width of an embedding
    for (const int64_t n : sizes)
      widths.push_back(std::min<int64_t>(600, std::llround(1.6 * std::pow(static_cast<double>(n), 0.56))));
  }
  if (widths.size() != sizes.size()) c.refuse("embedding", "expected one number for each of `categories`");
  const int64_t numbers = c.number("continuous", 0) == 0 ? 0 : c.positive("continuous");
  if (sizes.empty() && numbers == 0) c.refuse("continuous", "expected columns here or in `categories`");
  std::optional<NetValue> ids, x;  // the inputs of a network must be added before its other values
  if (!sizes.empty()) ids = net.input("categorical", DType::i64, rows_by(static_cast<int64_t>(sizes.size())));
  if (numbers > 0) x = net.input("continuous", DType::f32, rows_by(numbers));
  std::vector<NetValue> parts;
  int64_t width = numbers;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string at = cat("embeds.", i);
    const NetValue id = net.gather(*ids, at, static_cast<int64_t>(i), 1, DType::i64);
    parts.push_back(net.embedding(id, at, sizes[i], widths[i], Init::normal(0.01)));
    width += widths[i];
  }
  std::optional<NetValue> all;
  if (ids) {
    all = net.op("Concat", "embeds", parts, {{"axis", int64_t{1}}});
    all = dropout(net, *all, c, "embedding_dropout", "embeds");
  }
  if (x) {
    const NetValue scaled = batch_norm(net, *x, "bn_cont", numbers);
    all = all ? net.op("Concat", "", {*all, scaled}, {{"axis", int64_t{1}}}) : scaled;
  }
  net.output(layers(net, *all, c, width), "output", rows_by(c.positive("outputs")));
}

const RegisterArchitecture mlp_rows[] = {
    RegisterArchitecture{{"mlp",
                          {},
                          "",
                          {},
                          {Head::none},
                          R"({"architecture": "mlp", "inputs": 32, "hidden": [128, 128], "outputs": 2,
  "activation": "relu", "batch_norm": false, "dropout": 0})",
                          build_mlp}},
    RegisterArchitecture{{"tabular",
                          {},
                          "",
                          {},
                          {Head::none},
                          R"({"architecture": "tabular", "categories": [10, 10], "embedding": null, "continuous": 4,
  "hidden": [1000, 500], "outputs": 1, "activation": "relu", "batch_norm": true, "embedding_dropout": 0,
  "dropout": 0})",
                          build_tabular}}};

}  // namespace
}  // namespace amp
