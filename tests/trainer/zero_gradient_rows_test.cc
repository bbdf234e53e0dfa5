// Zero-gradient embedding rows are updated without their moments (backend/cpu/update/zero_gradient_rows.h), with the
// same bits as the full update.
#include <catch2/catch_all.hpp>
#include <random>

#include "backend/cpu/update/optimizer.h"
#include "backend/update_rules.h"

using namespace amp;

namespace {

constexpr int64_t kRows = 1500, kRow = 40, kTable = kRows * kRow, kRest = 700;  // a table, then a vector

struct Weights {
  std::vector<float> p = std::vector<float>(kTable + kRest);
  Optimizer<float> optimizer;

  // dims: tables have two dimensions, vectors one.
  Weights(const OptimizerConfig& c, const Dims& dims, const std::vector<float>& start)
      : p(start), optimizer(c, spans(dims), kTable + kRest, p.data()) {}
  static std::vector<UpdateSpan> spans(const Dims& dims) {
    UpdateSpan table, vector;
    table.count = kTable, table.slot = 0, table.dims = dims;
    vector.begin = kTable, vector.count = kRest, vector.slot = 1, vector.weight_decay = 0;
    return {table, vector};
  }
  bool step(const std::vector<float>& g) {
    return optimizer.apply(p.data(), g.data(), 8, optimizer.inspect(g.data(), 8), 0.01);
  }
  std::vector<std::vector<float>> state() {
    std::vector<std::vector<float>> out{p};
    for (const auto m :
         {DeviceUpdate::Moment::m, DeviceUpdate::Moment::v, DeviceUpdate::Moment::u, DeviceUpdate::Moment::ema}) {
      if (const float* x = optimizer.moment(m)) out.emplace_back(x, x + kTable + kRest);
    }
    return out;
  }
};

// Compares bits, so that NaN equals itself and 0 differs from -0.
bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i)
    equal = std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) == 0;
  return equal;
}

// Returns gradients of few rows, which differ from step to step.
std::vector<float> sparse(std::mt19937& random, int touched) {
  std::normal_distribution<float> normal;
  std::vector<float> g(kTable + kRest);
  for (int i = 0; i < touched; ++i) {
    const int64_t row = static_cast<int64_t>(random() % kRows);
    for (int64_t k = 0; k < kRow; ++k) g[static_cast<size_t>(row * kRow + k)] = normal(random);
  }
  for (int64_t k = kTable; k < kTable + kRest; ++k) g[static_cast<size_t>(k)] = normal(random);
  return g;
}

}  // namespace

TEST_CASE("rows that rest end with the bits of a full update, by every rule", "[zero_gradient_rows]") {
  for (const std::string& rule : update_rule_names()) {
    for (const double decay : {0.0, 0.1}) {
      for (const int variant : {0, 1, 2, 3}) {
        OptimizerConfig c;
        c.rule = rule;
        c.settings = rule_settings(rule, {});
        c.weight_decay = decay;
        c.max_grad_norm = variant == 1 ? 0 : 1;
        c.clip_mode = variant == 2 ? ClipMode::value : ClipMode::norm2;
        if (variant == 1) c.ema_decays = {0.9, 0.99};
        if (variant == 3) c.lookahead = 2;
        if (c.tensor_wise() || c.needs_hessian_diagonal() || (variant % 2 == 1 && c.has_evaluated_weights())) continue;
        INFO(rule << ", decay " << decay << ", variant " << variant);
        std::mt19937 random(7);
        std::vector<float> start(kTable + kRest);
        for (float& x : start) x = static_cast<float>(random() % 2001) / 1000 - 1;
        Weights watched(c, {kRows, kRow}, start), full(c, {}, start);
        bool equal = true;
        for (int step = 0; step < 8; ++step) {
          std::vector<float> g = sparse(random, step < 4 ? 30 : 400);
          if (step == 2) g[11 * kRow] = std::numeric_limits<float>::infinity();
          equal &= watched.step(g) == full.step(g);
        }
        // A gradient so small that its square is 0: the row still counts as nonzero.
        std::vector<float> g(kTable + kRest);
        g[77 * kRow + 3] = 1e-42f;
        equal &= watched.step(g) == full.step(g);
        CHECK(equal);
        CHECK(same(watched.state(), full.state()));
      }
    }
  }
}

TEST_CASE("moments that are written from outside wake their rows", "[zero_gradient_rows]") {
  OptimizerConfig c;
  c.settings = rule_settings(c.rule, {});
  std::mt19937 random(3);
  std::vector<float> start(kTable + kRest, 0.5f);
  Weights a(c, {kRows, kRow}, start), b(c, {}, start);
  for (Weights* w : {&a, &b}) {
    std::mt19937 same_random(5);
    w->step(sparse(same_random, 20));
    float* const m = w->optimizer.moment(DeviceUpdate::Moment::m);
    float* const v = w->optimizer.moment(DeviceUpdate::Moment::v);
    for (int64_t k = 0; k < 3 * kRow; ++k) m[900 * kRow + k] = v[1200 * kRow + k] = 0.25f;
    w->optimizer.set_steps(5);
    for (int step = 0; step < 3; ++step) w->step(sparse(same_random, 20));
  }
  CHECK(same(a.state(), b.state()));
  CHECK(a.p[900 * kRow] != 0.5f);
}
