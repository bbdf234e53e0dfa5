// An attention library made for tests, a plain loop over the operands in their layout, and a node with its guard.
#pragma once

#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>
#include <sstream>

#include "backend/cuda/attention.h"
#include "tests/cuda/fake_clock.h"
#include "tests/cuda/on_device.h"

namespace amp::test {

class FakeAttention final : public WithClock<cuda::LibraryAttention> {
 public:
  cuda::Attention what;
  double error = 0;  // added to a result: y, or dq of the gradient
  bool refuses = false, waits = true;
  std::vector<uint16_t> bits;  // the dropout mask that was passed

  bool may_wait() const override { return waits; }
  void* kept() override {
    if (what.kept_scale == 0) return nullptr;
    bits.resize(static_cast<size_t>(what.batch * what.heads * what.queries * what.keys));
    return bits.data();
  }
  bool run(const cuda::AttentionOperands& o) override {
    ++runs;
    if (refuses) return false;
    for (int64_t b = 0; b < what.batch; ++b) {
      if (what.lengths) REQUIRE(o.query_lengths[b] == what.queries);
      for (int64_t n = 0; n < what.heads; ++n) head(o, b, n);
    }
    return true;
  }

 private:
  static float get(const void* p, int64_t i) { return Half::decode(static_cast<const uint16_t*>(p)[i]); }
  static void put(void* p, int64_t i, double v) { static_cast<uint16_t*>(p)[i] = Half::encode(static_cast<float>(v)); }
  double bias(const cuda::AttentionOperands& o, int64_t b, int64_t n, int64_t i, int64_t j) const {
    if (what.bias.empty()) return 0;
    const int64_t at[4] = {b, n, i, j};
    int64_t index = 0;
    for (size_t d = 0; d < 4; ++d) index = index * what.bias[d] + (what.bias[d] == 1 ? 0 : at[d]);
    return get(o.bias, index);
  }
  bool sees(const cuda::AttentionOperands& o, int64_t b, int64_t i, int64_t j) const {
    return (!what.causal || j <= i) && (!what.lengths || j < o.key_lengths[b]);
  }
  // Returns the factor by which dropout multiplies an attention weight.
  double kept(const cuda::AttentionOperands& o, int64_t b, int64_t n, int64_t i, int64_t j) const {
    if (what.kept_scale == 0) return 1;
    return get(o.kept, ((b * what.heads + n) * what.queries + i) * what.keys + j) * what.kept_scale;
  }
  void head(const cuda::AttentionOperands& o, int64_t b, int64_t n) const {
    const auto at = [&](const cuda::HeadStrides& s, int64_t token) {
      return b * s.batch + n * s.head + token * s.token;
    };
    const int64_t Q = what.queries, K = what.keys, H = what.width, V = what.value_width;
    std::vector<double> dk(static_cast<size_t>(K * H)), dv(static_cast<size_t>(K * V));
    for (int64_t i = 0; i < Q; ++i) {
      std::vector<double> p(static_cast<size_t>(K)), y(static_cast<size_t>(V)), dq(static_cast<size_t>(H));
      double sum = 0;
      for (int64_t j = 0; j < K; ++j) {
        double z = 0;
        for (int64_t h = 0; h < H; ++h) z += get(o.q, at(what.q, i) + h) * get(o.k, at(what.k, j) + h);
        if (!sees(o, b, i, j)) continue;
        sum += p[static_cast<size_t>(j)] = std::exp(z * what.scale + bias(o, b, n, i, j));
      }
      double d = 0;
      for (int64_t j = 0; j < K; ++j) {
        p[static_cast<size_t>(j)] /= sum;
        for (int64_t h = 0; h < V; ++h)
          y[static_cast<size_t>(h)] += p[static_cast<size_t>(j)] * kept(o, b, n, i, j) * get(o.v, at(what.v, j) + h);
      }
      if (!what.backward) {
        for (int64_t h = 0; h < V; ++h) put(o.y, at(what.y, i) + h, y[static_cast<size_t>(h)] + error);
        o.lse[(b * what.heads + n) * Q + i] = static_cast<float>(std::log(sum));
        continue;
      }
      for (int64_t h = 0; h < V; ++h) d += y[static_cast<size_t>(h)] * get(o.dy, at(what.y, i) + h);
      for (int64_t j = 0; j < K; ++j) {
        const double x = p[static_cast<size_t>(j)], r = kept(o, b, n, i, j);
        double g = 0;
        for (int64_t h = 0; h < V; ++h) {
          const double up = get(o.dy, at(what.y, i) + h);
          g += r * up * get(o.v, at(what.v, j) + h);
          dv[static_cast<size_t>(j * V + h)] += x * r * up;
        }
        for (int64_t h = 0; h < H; ++h) {
          dq[static_cast<size_t>(h)] += what.scale * x * (g - d) * get(o.k, at(what.k, j) + h);
          dk[static_cast<size_t>(j * H + h)] += what.scale * x * (g - d) * get(o.q, at(what.q, i) + h);
        }
      }
      for (int64_t h = 0; h < H; ++h) put(o.dq, at(what.q, i) + h, dq[static_cast<size_t>(h)] + error);
    }
    if (!what.backward) return;
    for (int64_t j = 0; j < K; ++j) {
      if (what.lengths && j >= o.key_lengths[b]) continue;  // padded keys stay unchanged
      for (int64_t h = 0; h < H; ++h) put(o.dk, at(what.k, j) + h, dk[static_cast<size_t>(j * H + h)]);
      for (int64_t h = 0; h < V; ++h) put(o.dv, at(what.v, j) + h, dv[static_cast<size_t>(j * V + h)]);
    }
  }
};

struct BehindGuard {
  std::unique_ptr<cuda::EmulatedDevice> device = cuda::make_emulated_device();
  Attrs attrs{{"scale", 0.3}};
  std::vector<HostTensor> in{draw({2, 9, 2, 16}, 1, DType::f16), draw({2, 7, 2, 16}, 2, DType::f16),
                             draw({2, 7, 2, 24}, 3, DType::f16)};
  std::shared_ptr<FakeAttention> fake = std::make_shared<FakeAttention>();
  int asked = 0;
  std::ostringstream warnings;
  const char* op = "FusedAttention";

  BehindGuard() {
    device->attention_library = [this](const cuda::Attention& a) {
      ++asked;
      fake->what = a;
      return fake;
    };
  }
  void turn_backward() {
    const std::vector<HostTensor> y = on_cpu(op, in, attrs);
    in.resize(5);
    in.push_back(y[0].cast(DType::f16));
    in.push_back(y[1].cast(DType::f32));
    in.push_back(draw(y[0].dims(), 9, DType::f16));
    in.push_back(y[2].cast(DType::f32));
    op = "FusedAttentionGrad";
  }
  OnDevice node() { return OnDevice(*device, op, in, attrs, DType::f32); }
  // Runs the node. std::cerr is redirected only meanwhile, because Catch2 redirects it around assertions.
  std::vector<HostTensor> run(OnDevice& n, const std::vector<HostTensor>& with) {
    std::streambuf* const before = std::cerr.rdbuf(warnings.rdbuf());
    std::vector<HostTensor> out = n.run(with);
    std::cerr.rdbuf(before);
    return out;
  }
  double off(const std::vector<HostTensor>& got) {
    const std::vector<HostTensor> want = on_cpu(op, in, attrs);
    double d = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      if (i == 2 && op == std::string("FusedAttention")) continue;  // not compared: the rounding error of output 1
      d = std::max(d, worst(got[i], want[i]));
    }
    return d;
  }
};

}  // namespace amp::test
