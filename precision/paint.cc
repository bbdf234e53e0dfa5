// The four passes of grappler's auto_mixed_precision.cc (see paint.h). Roots are visited in index order, and each
// vertex is entered once per pass. So the running time is linear, and equal graphs give equal causes (Painted::cause).
#include "precision/paint.h"

namespace amp {

std::string_view name_of(PaintPass p) {
  static constexpr std::string_view names[] = {"class", "paint: downstream of deny", "paint: between allow nodes",
                                               "paint: beside a low node", "paint: not between allow nodes"};
  return names[static_cast<size_t>(p)];
}

namespace {

using PaintGraph = std::vector<PaintVertex>;

// Visits all vertices that can be reached from root through vertices that enter() accepts; root is visited in any case.
template <class Enter, class Visit>
void walk(const PaintGraph& g, int root, bool up, bool down, Enter enter, Visit visit) {
  std::vector<int> stack = {root};
  visit(root);
  while (!stack.empty()) {
    const PaintVertex& v = g[static_cast<size_t>(stack.back())];
    stack.pop_back();
    const auto follow = [&](const std::vector<int>& next) {
      for (const int n : next) {
        if (!enter(n)) continue;
        visit(n);
        stack.push_back(n);
      }
    };
    if (up) follow(v.in);
    if (down) follow(v.out);
  }
}

}  // namespace

std::vector<Painted> paint(const PaintGraph& g) {
  const int n = static_cast<int>(g.size());
  std::vector<Painted> out(g.size());
  const auto at = [](int i) { return static_cast<size_t>(i); };
  const auto cls = [&](int i) { return g[at(i)].cls; };
  const auto allowed = [&](int i) { return cls(i) == OpClass::allow && !g[at(i)].fixed; };

  // Mark the vertices from which a path of clear vertices leads to a deny or infer vertex. Deny and infer vertices are
  // marked too.
  std::vector<char> leads(g.size(), 0);
  for (int r = 0; r < n; ++r) {
    if (cls(r) != OpClass::deny && cls(r) != OpClass::infer) continue;
    walk(
        g, r, true, false, [&](int i) { return !leads[at(i)] && cls(i) == OpClass::clear; },
        [&](int i) { leads[at(i)] = 1; });
  }
  // Pass 2: spread deny forward along vertices that lead to a deny or infer vertex.
  std::vector<char> denied(g.size(), 0);
  for (int r = 0; r < n; ++r) {
    if (cls(r) == OpClass::deny) out[at(r)].pass = PaintPass::cls;
    if (cls(r) != OpClass::deny || denied[at(r)]) continue;
    walk(
        g, r, false, true, [&](int i) { return !denied[at(i)] && leads[at(i)]; },
        [&](int i) {
          denied[at(i)] = 1;
          if (cls(i) != OpClass::deny) out[at(i)] = {false, PaintPass::after_deny, r};
        });
  }
  const auto may_join = [&](int i) {
    return !g[at(i)].fixed && !denied[at(i)] && (cls(i) == OpClass::clear || cls(i) == OpClass::infer);
  };
  // Pass 3: assign low to vertices between allow vertices, that is, downstream of one and upstream of another.
  std::vector<char> downstream(g.size(), 0);
  for (int r = 0; r < n; ++r) {
    if (!allowed(r)) continue;
    walk(
        g, r, false, true, [&](int i) { return !downstream[at(i)] && may_join(i); },
        [&](int i) { downstream[at(i)] = 1; });
  }
  for (int r = 0; r < n; ++r) {
    if (!allowed(r)) continue;
    walk(
        g, r, true, false, [&](int i) { return downstream[at(i)] && !out[at(i)].low && may_join(i); },
        [&](int i) {
          out[at(i)] = i == r ? Painted{true, PaintPass::cls, -1} : Painted{true, PaintPass::between_allow, r};
        });
  }
  // Pass 4: extend low through clear vertices, starting only from vertices that were low before this pass.
  std::vector<char> seed(g.size(), 0);
  for (int r = 0; r < n; ++r) seed[at(r)] = out[at(r)].low;
  for (int r = 0; r < n; ++r) {
    if (!seed[at(r)]) continue;
    walk(
        g, r, true, true, [&](int i) { return !out[at(i)].low && may_join(i) && cls(i) == OpClass::clear; },
        [&](int i) {
          if (i != r) out[at(i)] = {true, PaintPass::beside_allow, r};
        });
  }
  return out;
}

}  // namespace amp
