// ProgramCache: the compiled Programs of a session, one for each bucket (batches with the same shapes) and kind of
// request. All share one activation arena.
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
#include "trainer/compile/shared_constants.h"

namespace amp {

// The names, types and shapes of a batch.
using Bucket = std::vector<std::tuple<std::string, DType, Dims>>;
Bucket bucket_of(const Tensors& batch);

// Everything that a compiled graph depends on.
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
  // The arguments must outlive the cache.
  ProgramCache(const GraphCompiler& compiler, ParameterArena& params, const RunState& state, Log log)
      : compiler_(compiler),
        params_(params),
        state_(state),
        log_(std::move(log)),
        arena_(params.device().make_arena()) {}

  struct Kind {
    bool accumulate = false;           // add gradients to the arena instead of overwriting it
    bool fused = true;                 // false: skip fusion, whatever the options are
    const Packing* packing = nullptr;  // not null: composed() returns a graph without padding, or of fewer rows
  };
  // Returns the cached Program, or compiles it from the graph that composed() returns (GraphCompiler::compose).
  BucketProgram& get(const GraphRequest& r, const Kind& kind, const std::function<std::shared_ptr<Graph>()>& composed);
  // Required before parameters get new addresses.
  void clear() {
    programs_.clear();
    constants_.clear();
  }

  // Returns options for a Program that is not in the cache.
  ProgramOptions options(GraphForm form, bool accumulate);

  size_t size() const { return programs_.size(); }
  int64_t activation_bytes() const { return arena_->used(); }
  // Describes what the last training Program recomputes in the backward pass, for logs; empty: nothing was chosen.
  const std::string& recomputed() const { return recomputed_; }

 private:
  struct Key {
    GraphKey graph;
    bool accumulate, fused;
    int64_t tokens, rows;  // as in Packing
    auto operator<=>(const Key&) const = default;
  };

  const GraphCompiler& compiler_;
  ParameterArena& params_;
  const RunState& state_;
  const Log log_;
  std::unique_ptr<Arena> arena_;
  SharedConstants constants_;
  std::map<Key, std::unique_ptr<BucketProgram>> programs_;
  std::string recomputed_;
};

std::string shapes_of(const Tensors& batch);  // for messages: "ids [32,128], label [32]"

}  // namespace amp
