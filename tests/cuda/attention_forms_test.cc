// An attention library is used with causal masks, lengths and dropout with the project's bits. Masks that do not have
// the form that their shape suggests become the library's bias, or the project's kernels are used.
#include <catch2/catch_all.hpp>

#include "tests/cuda/fake_attention.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr double kNear = 3e-3;  // results are stored in fp16, the wanted ones are computed in fp64

constexpr int64_t kBatch = 2, kTokens = 9;

struct Hide {
  const char* name;
  DType type;
  double fill;  // added to a masked score; replaces it for a boolean mask
};

// Returns a mask for dims (B, 1, Q, K): mask[b, 0, i, j] states whether query i attends to key j.
HostTensor mask_of(const Hide& h, const Dims& dims, const std::function<bool(int64_t, int64_t, int64_t)>& sees) {
  HostTensor m = HostTensor::zeros(DType::f32, dims);
  const bool boolean = h.type == DType::boolean;
  for (int64_t at = 0; at < m.numel(); ++at) {
    const int64_t j = at % dims[3], row = at / dims[3];
    const bool seen = sees(row / dims[2], row % dims[2], j);
    m.as_mutable<float>()[at] = static_cast<float>(boolean ? seen : seen ? 0.0 : h.fill);
  }
  return m.cast(h.type);
}

// A guarded attention node with the operands of self attention or of its gradient.
struct Asked : BehindGuard {
  explicit Asked(bool backward_) : backward(backward_) {
    for (uint64_t i = 0; i < 3; ++i) in[i] = draw({kBatch, kTokens, 2, 16}, i + 1, DType::f16);
    in.resize(3);
    qkv = in;
  }
  void set_mask(const HostTensor& mask) {
    in = qkv;
    in.push_back(mask);
    if (!backward) return;
    op = "FusedAttention";
    const std::vector<HostTensor> y = on_cpu(op, in, attrs);
    in.insert(in.end(), {HostTensor(), y[0].cast(DType::f16), y[1].cast(DType::f32), draw(y[0].dims(), 9, DType::f16),
                         y[2].cast(DType::f32)});
    op = "FusedAttentionGrad";
  }
  double off(OnDevice& n) { return BehindGuard::off(run(n, in)); }

  bool backward;
  std::vector<HostTensor> qkv;
};

constexpr int64_t kLengths[kBatch] = {9, 5};

const Hide kHides[] = {{"added -1e4", DType::f32, -1e4},
                       {"added, fp16", DType::f16, -65504},
                       {"added -inf", DType::f32, -INFINITY},
                       {"boolean", DType::boolean, -1e9},
                       {"boolean, -inf", DType::boolean, -INFINITY}};

void set_fill(Asked& g, const Hide& h) {
  if (h.type == DType::boolean) g.attrs.set("fill", h.fill);
}

}  // namespace

TEST_CASE("an attention library receives causal masks and lengths as options", "[cuda]") {
  struct Form {
    Dims dims;
    bool causal, lengths;
  };
  for (const Form& f : {Form{{1, 1, kTokens, kTokens}, true, false}, Form{{kBatch, 1, kTokens, kTokens}, true, true},
                        Form{{kBatch, 1, 1, kTokens}, false, true}}) {
    for (const Hide& h : kHides) {
      for (const bool backward : {false, true}) {
        INFO(to_string(f.dims) << ' ' << h.name << ", backward " << backward);
        Asked g(backward);
        set_fill(g, h);
        g.set_mask(mask_of(h, f.dims, [&](int64_t b, int64_t i, int64_t j) {
          return (!f.causal || j <= i) && (!f.lengths || j < kLengths[b]);
        }));
        OnDevice node = g.node();
        CHECK(g.fake->what.causal == f.causal);
        CHECK(g.fake->what.lengths == f.lengths);
        CHECK(g.fake->what.bias.empty());
        CHECK(g.off(node) < kNear);
        CHECK(g.fake->runs == 5);  // runs of the library: once to compare, three times to measure, once for the result
        CHECK(g.off(node) < kNear);
        CHECK(g.fake->runs == 6);
        CHECK(g.warnings.str().empty());
        CHECK(g.asked == 1);
      }
    }
  }
}

TEST_CASE("a first mask of another form becomes the attention library's bias", "[cuda]") {
  struct Other {
    const char* name;
    Dims dims;
    std::function<bool(int64_t, int64_t, int64_t)> sees;
  };
  const auto padded_left = [](int64_t b, int64_t, int64_t j) { return j >= kTokens - kLengths[b]; };
  for (const Other& o : {Other{"padded at the left", {kBatch, 1, 1, kTokens}, padded_left},
                         Other{"keys beyond the causal ones",
                               {1, 1, kTokens, kTokens},
                               [](int64_t, int64_t i, int64_t j) { return j <= i + 1; }},
                         Other{"lengths for every query",
                               {kBatch, 1, kTokens, kTokens},
                               [](int64_t b, int64_t, int64_t j) { return j < kLengths[b]; }},
                         Other{"a window of three", {1, 1, kTokens, kTokens}, [](int64_t, int64_t i, int64_t j) {
                                 return j <= i && j > i - 3;
                               }}}) {
    for (const bool backward : {false, true}) {
      INFO(o.name << ", backward " << backward);
      Asked g(backward);
      g.set_mask(mask_of({"", DType::f32, -1e4}, o.dims, o.sees));
      OnDevice node = g.node();
      CHECK(g.fake->what.bias.empty());
      CHECK(g.off(node) < kNear);
      CHECK(g.asked == 2);
      CHECK(g.fake->what.bias == o.dims);
      CHECK(g.fake->runs == 5);
      CHECK(g.off(node) < kNear);
      CHECK(g.fake->runs == 6);
      CHECK(g.warnings.str().empty());
    }
  }
}

TEST_CASE("a later mask of another form is computed by the built-in kernels", "[cuda]") {
  const Hide added{"", DType::f32, -1e4};
  const Dims dims{kBatch, 1, 1, kTokens};
  for (const bool backward : {false, true}) {
    INFO("backward " << backward);
    Asked g(backward);
    const auto padded = [&] {
      return mask_of(added, dims, [](int64_t b, int64_t, int64_t j) { return j < kLengths[b]; });
    };
    const HostTensor right = padded();
    const HostTensor left = mask_of(added, dims, [](int64_t b, int64_t, int64_t j) { return j >= kLengths[b] - 3; });
    HostTensor bias = padded();
    bias.as_mutable<float>()[2] = 0.5f;
    const HostTensor none = mask_of(added, dims, [](int64_t b, int64_t, int64_t) { return b == 0; });
    g.set_mask(right);
    OnDevice node = g.node();
    CHECK(g.off(node) < kNear);
    g.fake->error = 0.5;  // later errors of 0.5 show that the library runs
    CHECK(g.off(node) > 0.1);
    for (const HostTensor& other : {left, bias, none}) {
      g.set_mask(other);
      CHECK(g.off(node) < kNear);
    }
    g.set_mask(right);
    CHECK(g.off(node) > 0.1);
    CHECK(g.asked == 1);
    CHECK(g.warnings.str().empty());
  }
}

TEST_CASE("the form of a mask is not decided while launches are recorded", "[cuda]") {
  Asked g(false);
  g.set_mask(mask_of({"", DType::f32, -1e4}, {kBatch, 1, 1, kTokens},
                     [](int64_t b, int64_t, int64_t j) { return j < kLengths[b]; }));
  g.fake->waits = false;
  OnDevice node = g.node();
  CHECK(g.off(node) < kNear);
  CHECK(g.fake->runs == 0);
  g.fake->waits = true;
  CHECK(g.off(node) < kNear);
  CHECK(g.fake->memory == true);
}

TEST_CASE("an attention library drops the elements that the project's bits drop", "[cuda]") {
  const Hide added{"", DType::f32, -1e4};
  const HostTensor causal = mask_of(added, {kBatch, 1, kTokens, kTokens},
                                    [](int64_t b, int64_t i, int64_t j) { return j <= i && j < kLengths[b]; });
  const HostTensor bias = draw({1, 2, kTokens, kTokens}, 7);
  for (const bool backward : {false, true}) {
    for (const int64_t rows : {1, 2}) {
      for (const HostTensor& mask : {HostTensor(), causal, bias}) {
        INFO("backward " << backward << ", rows " << rows << ", mask " << (mask ? to_string(mask.dims()) : "none"));
        Asked g(backward);
        g.attrs.set("ratio", 0.25);
        g.attrs.set("site", int64_t{3});
        g.attrs.set("rows", rows);
        g.set_mask(mask);
        OnDevice node = g.node();
        CHECK(g.fake->what.kept_scale == 1 / 0.75);
        CHECK(g.off(node) < kNear);
        CHECK(g.fake->memory == true);  // the library was accepted
        CHECK(g.off(node) < kNear);
        CHECK(g.fake->runs == 6);
        CHECK(g.warnings.str().empty());
      }
    }
  }
  // The number of keys is a multiple of four, so a Philox block has the bits of four keys.
  Asked g(false);
  for (HostTensor& t : g.qkv) t = draw({kBatch, 8, 2, 16}, 1, DType::f16);
  g.attrs.set("ratio", 0.25);
  g.attrs.set("rows", kBatch);
  g.in = g.qkv;
  OnDevice node = g.node();
  CHECK(g.off(node) < kNear);
  CHECK(g.fake->memory == true);
  CHECK(g.warnings.str().empty());
}
