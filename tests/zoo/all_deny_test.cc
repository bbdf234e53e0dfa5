// Runs the models of the shared zoo with an op list that denies every operator, for fp16 and for bf16. There must be no
// loss scaling, and loss and gradients must be bit-identical to a run without a precision plan. Skipped without the
// zoo.
#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "precision/decide.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kAllDeny = R"({"version": 1, "extends": "none", "propagation": "paint", "deny": ["*"]})";

std::vector<fs::path> all_entries() {
  const char* env = std::getenv("ONNX_AMP_ZOO");
  const fs::path root = env ? fs::path(env) : fs::path(source_root()) / ".." / "shared" / "zoo";
  std::vector<fs::path> out;
  if (!fs::is_directory(root)) return out;
  for (const auto& e : fs::directory_iterator(root)) {
    if (fs::exists(e.path() / "ref.json")) out.push_back(e.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Bits {
  double loss = 0;
  std::vector<std::vector<uint8_t>> grads;  // indexed by slot; empty if there is no gradient
  bool operator==(const Bits&) const = default;
};

Bits bits_of(const Golden& g, const PrecisionPlan* plan) {
  SessionOptions o;
  o.batchnorm_train = g.batch_statistics;
  if (plan) {  // no node computes in 16 bits, but the plan is passed, so that all of apply_precision runs
    o.low = plan->low;
    for (const Decision& d : plan->nodes) o.compute.push_back(dtype_of(d.compute));
  }
  Session session(g.model.graph, o);
  Bits out;
  out.loss = run_gradients(session, g);
  for (size_t s = 0; s < session.table().size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!session.has_grad(slot)) {
      out.grads.emplace_back();
      continue;
    }
    const HostTensor t = session.grad(slot);
    const auto* p = static_cast<const uint8_t*>(t.data());
    out.grads.emplace_back(p, p + t.bytes());
  }
  return out;
}

}  // namespace

TEST_CASE("an all-deny plan is fp32 bit by bit, on every entry of the zoo", "[zoo]") {
  const auto all = all_entries();
  if (all.empty()) SKIP("no zoo: set ONNX_AMP_ZOO, or put it in ../shared/zoo");
  const OpList deny = parse_op_list(kAllDeny, "all-deny");
  int equal = 0, seen = 0;
  for (const fs::path& dir : all) {
    INFO(dir.filename().string());
    const Golden g(dir);
    const Bits plain = bits_of(g, nullptr);
    CHECK_FALSE(plain.grads.empty());
    bool same = true;
    for (const DType low : {DType::f16, DType::bf16}) {
      const PrecisionPlan plan = decide(g.model.graph, deny, low);
      CHECK_FALSE(plan.any_low());
      CHECK_FALSE(plan.any_f16());  // no fp16, so the loss scale is 1
      same = same && bits_of(g, &plan) == plain;
    }
    CHECK(same);
    equal += same;
    const PrecisionPlan mixed = decide(g.model.graph, preset("O1"), DType::bf16);
    seen += mixed.any_low() && bits_of(g, &mixed) != plain;  // shows that the comparison detects a single rounding
  }
  std::cout << "all-deny: " << equal << " of " << all.size() << " entries have fp32's bits; O1 in bf16 changes " << seen
            << '\n';
  CHECK(seen > static_cast<int>(all.size()) * 9 / 10);
}
