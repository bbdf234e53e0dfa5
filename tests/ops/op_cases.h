// Cases for the tests that are generated from the table of core operators: for every operator a few nodes, each with
// the shapes of its inputs, how their elements are drawn, and its attributes. Domains stay away from kinks, poles and
// ties by more than the finite-difference step reaches.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/shape.h"
#include "graph/attrs.h"
#include "graph/graph.h"

namespace amp {
class Builder;
}

namespace amp::test {

using Rng = std::mt19937_64;
double uniform01(Rng& rng);  // the same numbers with every standard library

// n elements of a tensor.
using Draw = std::function<std::vector<double>(int64_t n, Rng& rng)>;
Draw uniform(double lo, double hi, std::vector<double> avoid = {}, double gap = 0.02);  // kept gap away from `avoid`
Draw lattice(double step, double phase = 0);  // random multiples of step in [-2, 2], plus phase * step
Draw distinct(double step = 0.05);            // different multiples of step, shuffled, centred on 0
Draw integers(int64_t lo, int64_t hi);        // both included
Draw some_of(int64_t n);                      // different integers in [0, n), shuffled
Draw coin();                                  // 0 or 1

// Ranks 0 to 5, extents of 0 and 1 in every place, few elements.
const std::vector<Dims>& small_shapes();
// One axis of d, another for every k, and the last one.
std::vector<size_t> axes_in_turn(const Dims& d, size_t k);
// What broadcasts with s, one of six ways (0: s itself).
std::pair<Dims, Dims> broadcasting(const Dims& s, size_t way);

enum class Role {
  value,    // floating, its gradient is checked
  held,     // floating, no gradient is defined
  stat,     // floating, never stored in 16 bits
  integer,  // int64
  byte,     // uint8
  boolean,
  absent,  // an optional input that is left out
};

struct Operand {
  Dims dims;
  Draw draw = uniform(-2, 2);
  Role role = Role::value;
};

struct OpCase {
  std::vector<Operand> in;
  Attrs attrs;
  std::vector<size_t> seeded = {0};  // outputs whose gradient arrives
  bool finite_differences = true;    // off: too many elements to keep away from kinks
};

// What a gradient is the derivative of, where that is not the operator.
using Surrogate = ValueId (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpSpec {
  std::vector<OpCase> cases;
  bool elementwise = false;
  bool zero_gradient = false;     // constant almost everywhere
  Surrogate surrogate = nullptr;  // of a straight-through gradient
  double fp32_tolerance = 2e-6;   // fp32 against fp64, of the tensor's largest element ...
  double fp32_floor = 0;          // ... or of this, where the formula cancels (1 + erf x)
  // Products inside take operands rounded to the storage type: 16-bit results are right to this many of its steps at
  // the tensor's largest element, instead of being rounded once.
  double inner_steps = 0;
  bool reordered = false;  // 16-bit operands may be summed in another order, in fp32 as well
};

// By operator.
using OpSpecs = std::map<std::string, OpSpec>;
const OpSpecs& op_specs();

// Parts of the table, one function a file.
void add_elementwise_cases(OpSpecs& specs);
void add_tensor_cases(OpSpecs& specs);
void add_reduction_cases(OpSpecs& specs);
void add_spatial_cases(OpSpecs& specs);
void add_recurrent_cases(OpSpecs& specs);
void add_sampling_cases(OpSpecs& specs);
void add_region_cases(OpSpecs& specs);
void add_attention_cases(OpSpecs& specs);
// Structured operators over small_shapes(): op_shapes_*.cc.
void add_moving_shapes(OpSpecs& specs);
void add_indexing_shapes(OpSpecs& specs);
void add_adding_shapes(OpSpecs& specs);

}  // namespace amp::test
