// ProgramCache: the compiled Programs of a session, one for each bucket (batches with the same shapes) and kind of
// request. All share one activation arena and their constants. The rest of a Program needs some 1,000 bytes of host
// memory per node of its graph: 6 MB for a language model of 30 layers. So the cache has a limit in bytes, and removes
// the least recently used Programs. A removed Program is compiled again when its bucket returns, with the same bits.
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "trainer/compile/arena_cache.h"
#include "trainer/compile/bucket_program.h"
#include "trainer/compile/graph_compiler.h"
#include "trainer/compile/parameter_arena.h"
#include "trainer/compile/shared_constants.h"

namespace amp {

// The names, types and shapes of a batch.
using Bucket = std::vector<std::tuple<std::string, DType, Dims>>;
Bucket bucket_of(const Tensors& batch);

// Estimates of the host memory of a graph, and of a Program with its graph, without constants. Measured with the
// training graph of SmolLM2-135M with LoRA: 680 and 990 bytes per node.
int64_t host_bytes(const Graph& g);
int64_t program_bytes(const Graph& g);

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
  // The arguments must outlive the cache. limit: upper bound of bytes(); 0: chosen from the size of the session.
  ProgramCache(const GraphCompiler& compiler, ParameterArena& params, const RunState& state, int64_t limit, Log log)
      : compiler_(compiler),
        params_(params),
        state_(state),
        limit_(limit),
        log_(std::move(log)),
        programs_(params.device()) {}

  struct Kind {
    bool accumulate = false;           // add gradients to the arena instead of overwriting it
    bool fused = true;                 // false: skip fusion, whatever the options are
    const Packing* packing = nullptr;  // not null: composed() returns a graph without padding, or of fewer rows
  };
  // Returns the cached Program, or compiles it from the graph that composed() returns (GraphCompiler::compose). The
  // reference is valid until the next call of get() or clear().
  BucketProgram& get(const GraphRequest& r, const Kind& kind, const std::function<std::shared_ptr<Graph>()>& composed);
  // Removes all Programs. Must be called before parameters get new addresses, because Programs contain the addresses.
  void clear() {
    programs_.clear();
    constants_.clear();
  }
  // Returns the limit of bytes(). The default is an eighth of the memory of parameters, gradients, constants and
  // activations, and at least 128 MiB: compiling takes about a tenth of the time of a step, so small models should
  // keep all lengths of their texts. On a GPU, whose steps take less time than compiling: a quarter, and at least 256
  // MiB.
  int64_t limit() const;
  // Returns the limit while a Program of so many bytes is compiled: a default limit is at least four times as large.
  int64_t limit_for(int64_t bytes) const { return limit_ > 0 ? limit_ : std::max(limit(), 4 * bytes); }

  // Returns options for a Program that is not in the cache.
  ProgramOptions options(GraphForm form, bool accumulate);

  size_t size() const { return programs_.size(); }
  int64_t bytes() const { return programs_.bytes(); }  // estimated host memory: program_bytes()
  int64_t constant_bytes() const { return constants_.bytes(); }
  int64_t compiled() const { return compiled_; }  // number of Programs that were compiled, also those removed since
  int64_t activation_bytes() const { return programs_.arena().used(); }
  // Describes what the last training Program recomputes in the backward pass, for logs; empty: nothing was chosen.
  const std::string& recomputed() const { return recomputed_; }

 private:
  struct Key {
    GraphKey graph;
    bool accumulate, fused;
    int64_t tokens, rows;  // as in Packing
    auto operator<=>(const Key&) const = default;
  };

  struct Entry {
    std::unique_ptr<BucketProgram> program;
    SharedConstants::Addresses constants;
  };
  // Composes a graph and passes it through all passes.
  std::shared_ptr<Graph> build(const GraphRequest& r, const Kind& kind,
                               const std::function<std::shared_ptr<Graph>()>& composed);

  const GraphCompiler& compiler_;
  ParameterArena& params_;
  const RunState& state_;
  const int64_t limit_;
  const Log log_;
  SharedConstants constants_;
  ArenaCache<Key, Entry> programs_;
  int64_t compiled_ = 0;
  std::string recomputed_;
};

std::string shapes_of(const Tensors& batch);  // for messages: "ids [32,128], label [32]"

}  // namespace amp
