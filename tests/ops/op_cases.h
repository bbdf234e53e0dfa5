// Cases for the tests that are generated from the table of core operators: for every operator some nodes with input
// shapes, distributions of the elements and attributes. Elements keep a distance from kinks, poles and ties that
// exceeds the finite-difference step.
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

// Returns n random elements of a tensor.
using Draw = std::function<std::vector<double>(int64_t n, Rng& rng)>;
Draw uniform(double lo, double hi, std::vector<double> avoid = {},
             double gap = 0.02);              // at least gap away from `avoid`
Draw lattice(double step, double phase = 0);  // random multiples of step in [-2, 2], plus phase * step
Draw distinct(double step = 0.05);            // different multiples of step, shuffled, centered at 0
Draw integers(int64_t lo, int64_t hi);        // both included
Draw some_of(int64_t n);                      // different integers in [0, n), shuffled
Draw coin();                                  // 0 or 1

// Returns shapes of ranks 0 to 5 with few elements, and sizes of 0 and 1 on every axis.
const std::vector<Dims>& small_shapes();
// Returns one axis of d, which changes with k, and the last one.
std::vector<size_t> axes_in_turn(const Dims& d, size_t k);
// Returns two shapes that broadcast to s, in one of six ways (0: both are s).
std::pair<Dims, Dims> broadcasting(const Dims& s, size_t way);

enum class Role {
  value,    // floating, its gradient is checked
  held,     // floating, no gradient is defined
  stat,     // floating, never stored in 16 bits
  integer,  // int64
  byte,     // uint8
  boolean,
  absent,  // an omitted optional input
};

struct Operand {
  Dims dims;
  Draw draw = uniform(-2, 2);
  Role role = Role::value;
};

struct OpCase {
  std::vector<Operand> in;
  Attrs attrs;
  std::vector<size_t> seeded = {0};  // outputs with an upstream gradient
  bool finite_differences = true;    // off: has too many elements to keep all of them away from kinks
};

// Builds a graph whose derivative the operator's gradient must equal, if not the operator's own derivative.
using Surrogate = ValueId (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpSpec {
  std::vector<OpCase> cases;
  bool elementwise = false;
  bool zero_gradient = false;     // the operator is constant almost everywhere
  Surrogate surrogate = nullptr;  // for straight-through gradients
  double fp32_tolerance = 2e-6;   // fp32 against fp64, relative to the tensor's largest element ...
  double fp32_floor = 0;          // ... or to this, if the formula cancels (1 + erf x)
  // For operators whose inner products round operands to the storage type: tolerance of 16-bit results in units in the
  // last place at the tensor's largest element. 0: the result is rounded once.
  double inner_steps = 0;
  bool reordered = false;  // 16-bit operands may be summed in another order, even in fp32
};

// key: name of the operator
using OpSpecs = std::map<std::string, OpSpec>;
const OpSpecs& op_specs();

// Parts of the table, one function per file.
void add_elementwise_cases(OpSpecs& specs);
void add_tensor_cases(OpSpecs& specs);
void add_reduction_cases(OpSpecs& specs);
void add_spatial_cases(OpSpecs& specs);
void add_recurrent_cases(OpSpecs& specs);
void add_sampling_cases(OpSpecs& specs);
void add_region_cases(OpSpecs& specs);
void add_attention_cases(OpSpecs& specs);
void add_quantized_cases(OpSpecs& specs);
// Structured operators over small_shapes(), in op_shapes_*.cc.
void add_moving_shapes(OpSpecs& specs);
void add_indexing_shapes(OpSpecs& specs);
void add_adding_shapes(OpSpecs& specs);

}  // namespace amp::test
