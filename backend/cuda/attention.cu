// Checks attention of a library (cuDNN) against the project's kernels: the first run of a node computes both and
// compares them. If they differ, or the library refuses, the node uses the project's kernels from then on. Also counts
// the memory of dropout masks that the library reads.
#include <functional>
#include <map>

#include "backend/cuda/attention.h"
#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "base/error.h"
#include "base/message.h"

namespace amp::cuda {

using KeptBytes = int64_t (*)(const Graph&, const Node&);
static std::map<std::string, KeptBytes, std::less<>>& dropout_users() {
  static std::map<std::string, KeptBytes, std::less<>> users;  // filled by the constructors of RegisterDropoutUser
  return users;
}
RegisterDropoutUser::RegisterDropoutUser(std::string_view op, KeptBytes bytes) { dropout_users().emplace(op, bytes); }

int64_t kept_bytes(const Graph& g) {
  int64_t most = 0;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    const auto user = dropout_users().find(n.op->name);
    if (user != dropout_users().end()) most = std::max(most, user->second(g, n));
  }
  return most;
}

namespace {

// One result of an attention. own: the result of the project's kernels. place: strides of the library's result.
struct Part {
  const char* name;
  const void* own;
  HeadStrides place;
  int64_t tokens, width;
};

// Copies a strided result to contiguous memory.
struct Gather {
  Ref from, to;
  HeadStrides place;
  int64_t heads, tokens, width;
  DEV void operator()(int64_t i) const {
    const int64_t h = i % width, row = i / width, head = row % heads, token = row / heads % tokens,
                  batch = row / heads / tokens;
    store(to, i, load<float>(from, batch * place.batch + token * place.token + head * place.head + h));
  }
};

// Sets the gradients of padded keys to 0.
struct ClearPadding {
  Ref to;
  HeadStrides place;
  const int32_t* lengths;
  int64_t heads, tokens, width;
  DEV void operator()(int64_t i) const {
    const int64_t h = i % width, row = i / width, head = row % heads, token = row / heads % tokens,
                  batch = row / heads / tokens;
    if (token >= lengths[batch]) store(to, batch * place.batch + token * place.token + head * place.head + h, 0.0f);
  }
};

}  // namespace

// cuDNN's documentation leaves the gradients of padded keys undefined, so they are cleared after cuDNN has run.
bool GuardedAttention::run_library(const AttentionOperands& o) {
  if (!library_->run(o)) return false;
  if (!what_.backward || !what_.lengths) return true;
  const auto clear = [&](void* to, const HeadStrides& place, int64_t width) {
    const int64_t n = what_.batch * what_.heads * what_.keys * width;
    const ClearPadding body{Tensor{to, what_.type, {n}}, place, o.key_lengths, what_.heads, what_.keys, width};
    for_each(device_, n, body);
  };
  clear(o.dk, what_.k, what_.width);
  clear(o.dv, what_.v, what_.value_width);
  return true;
}

static std::vector<Part> results_of(const Attention& a, const AttentionOperands& o) {
  if (!a.backward) return {{"result", o.y, a.y, a.queries, a.value_width}};
  return {{"gradient of the queries", o.dq, a.q, a.queries, a.width},
          {"gradient of the keys", o.dk, a.k, a.keys, a.width},
          {"gradient of the values", o.dv, a.v, a.keys, a.value_width}};
}

GuardedAttention::Verdict GuardedAttention::compare(const AttentionOperands& o, std::string& fact) {
  int32_t unfit = 0;
  if (o.unfit) device_.download(&unfit, o.unfit, sizeof unfit);
  if (unfit != 0) return Verdict::proves_nothing;
  const std::vector<Part> parts = results_of(what_, o);
  AttentionOperands other = o;
  std::vector<DeviceMemory> memory;
  const auto zeros = [&](int64_t bytes) {
    memory.push_back(device_.allocate(bytes));
    return memory.back().get();
  };
  std::vector<void*> results;
  for (const Part& p : parts) {
    const int64_t span =
        (what_.batch - 1) * p.place.batch + (p.tokens - 1) * p.place.token + (what_.heads - 1) * p.place.head + p.width;
    results.push_back(zeros(span * size_of(what_.type)));
  }
  if (what_.backward) {
    other.dq = results[0];
    other.dk = results[1];
    other.dv = results[2];
  } else {
    other.y = results[0];
    other.lse = static_cast<float*>(zeros(what_.batch * what_.heads * what_.queries * 4));
  }
  if (!run_library(other)) {
    fact = " refuses to run";
    return Verdict::differs;
  }
  const auto verdict_of = [&](const char* name, const OutputDifference& d, DType t) {
    if (!d.validates()) return Verdict::proves_nothing;
    if (d.within(library_tolerance(t))) return Verdict::agrees;
    fact = cat(" is off by ", d.difference, " of ", d.largest, " in the ", name);
    return Verdict::differs;
  };
  Verdict all = Verdict::agrees;
  for (size_t i = 0; i < parts.size() && all != Verdict::differs; ++i) {
    const Part& p = parts[i];
    const int64_t n = what_.batch * what_.heads * p.tokens * p.width;
    const Tensor x{zeros(n * 4), DType::f32, {n}}, y{zeros(n * 4), DType::f32, {n}};
    for (const auto& [from, to] : {std::pair(const_cast<void*>(p.own), x), std::pair(results[i], y)}) {
      const Gather gather{Tensor{from, what_.type, {n}}, to, p.place, what_.heads, p.tokens, p.width};
      for_each(device_, n, gather);
    }
    const Verdict v = verdict_of(p.name, compare_outputs(device_, x, y), what_.type);
    if (v != Verdict::agrees) all = v;
  }
  if (!what_.backward && all != Verdict::differs) {
    const int64_t n = what_.batch * what_.heads * what_.queries;
    const OutputDifference d =
        compare_outputs(device_, Tensor{o.lse, DType::f32, {n}}, Tensor{other.lse, DType::f32, {n}});
    const Verdict v = verdict_of("logarithms of the sums", d, what_.type);
    if (v != Verdict::agrees) all = v;
  }
  return all;
}

GuardedAttention::Verdict GuardedAttention::compare_if_room(const AttentionOperands& o, std::string& fact) {
  try {
    return compare(o, fact);
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return Verdict::no_room;
  }
}

void GuardedAttention::drop() {
  device_.store_decision(library_->key(), false);
  library_.reset();
}

bool GuardedAttention::run(const AttentionOperands& o, const Kernel& own) {
  const auto by_own = [&] {
    own();
    return false;
  };
  if (!library_) return by_own();
  if (!trusted_) {
    const std::optional<bool> decision = device_.stored_decision(library_->key());
    if (decision && !*decision) library_.reset();
    if (!library_) return by_own();
    trusted_ = decision.value_or(false);
  }
  if (trusted_) {
    if (run_library(o)) return true;
    library_.reset();
    return by_own();
  }
  own();
  if (!library_->may_wait()) return false;
  std::string fact;
  switch (compare_if_room(o, fact)) {
    case Verdict::no_room:  // there is no memory for the comparison; own() has computed the results
      return false;
    case Verdict::proves_nothing:
      device_.proved_nothing();  // the next run compares again
      return false;
    case Verdict::differs:
      print_message(Level::warning, cat("W_LIBRARY: ", library_->name(), fact, " of attention of ", what_.queries,
                                        " queries and ", what_.keys, " keys, ", what_.width, " wide, ",
                                        name_of(what_.type), "; the built-in kernels are used for it"));
      drop();
      return false;
    case Verdict::agrees:
      break;
  }
  trusted_ = is_faster(
      *library_, [&] { run_library(o); }, own);
  if (!trusted_) {
    drop();
    return by_own();  // timing overwrote the results with the library's
  }
  device_.store_decision(library_->key(), true);
  // Uses the library's result in this run already. After a resume this is the first run, and its bits must equal those
  // of the uninterrupted run, which uses the library.
  run_library(o);
  return true;
}

}  // namespace amp::cuda
