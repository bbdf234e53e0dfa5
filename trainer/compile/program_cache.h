// ProgramCache: the Programs of a session, one for each bucket and what is asked of it, in one arena of activations.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "trainer/compile/bucket_program.h"
#include "trainer/compile/graph_compiler.h"
#include "trainer/compile/parameter_arena.h"

namespace amp {

// The names, types and shapes of a batch.
using Bucket = std::vector<std::tuple<std::string, DType, Dims>>;
Bucket bucket_of(const Tensors& batch);

// What a compiled graph depends on.
struct GraphKey {
  GraphForm form;
  std::string losses;
  std::vector<int> outputs;
  Bucket bucket;
  explicit GraphKey(const GraphRequest& r)
      : form(r.form), losses(r.losses ? r.losses->key() : ""), outputs(r.outputs), bucket(bucket_of(r.batch)) {}
  auto operator<=>(const GraphKey&) const = default;
};

class ProgramCache {
 public:
  // All must outlive the cache.
  ProgramCache(const GraphCompiler& compiler, ParameterArena& params, const RunState& state, Log log)
      : compiler_(compiler),
        params_(params),
        state_(state),
        log_(std::move(log)),
        arena_(params.device().make_arena()) {}

  struct Kind {
    bool accumulate = false;           // gradients are added to the arena
    bool fused = true;                 // as the options have it
    const Packing* packing = nullptr;  // not null: composed is a graph without padding
  };
  // composed() is asked for the graph (GraphCompiler::compose) when there is no Program yet.
  BucketProgram& get(const GraphRequest& r, const Kind& kind, const std::function<std::shared_ptr<Graph>()>& composed);
  void clear() { programs_.clear(); }  // before parameters move

  // For a Program that is run once and not kept.
  ProgramOptions options(GraphForm form, bool accumulate);

  size_t size() const { return programs_.size(); }
  int64_t activation_bytes() const { return arena_->used(); }
  // What the last training Program computes again to fit into a budget, for people; empty: there is none.
  const std::string& recomputed() const { return recomputed_; }

 private:
  struct Key {
    GraphKey graph;
    bool accumulate, fused;
    int64_t tokens;  // 0: with padding
    auto operator<=>(const Key&) const = default;
  };

  const GraphCompiler& compiler_;
  ParameterArena& params_;
  const RunState& state_;
  const Log log_;
  std::unique_ptr<Arena> arena_;
  std::map<Key, std::unique_ptr<BucketProgram>> programs_;
  std::string recomputed_;
};

std::string shapes_of(const Tensors& batch);  // for people: "ids [32,128], label [32]"

}  // namespace amp
