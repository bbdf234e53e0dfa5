// Negative axes: core operators count axes from the start, ONNX also from the end. Lowered from either form, a node
// gives the same numbers and gradients, which agree with finite differences. Covers every ONNX operator with an axis,
// and every axis of two shapes.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "graph/op.h"
#include "tests/ops/one_node.h"

using namespace amp;

namespace {

struct Axis {
  const char* op;
  int64_t version;
  const char* attribute;  // name of the attribute with the axis; null: an input has the axis
  size_t place = 1;       // index of that input
  bool list = false;      // the attribute or input is a list of axes
  bool gradient = true;
};

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all = [] {
    std::vector<Axis> v = {{"Softmax", 11, "axis"},
                           {"Softmax", 13, "axis"},
                           {"LogSoftmax", 11, "axis"},
                           {"LogSoftmax", 13, "axis"},
                           {"Hardmax", 13, "axis", 1, false, false},
                           {"ArgMax", 13, "axis", 1, false, false},
                           {"ArgMin", 13, "axis", 1, false, false},
                           {"Concat", 13, "axis"},
                           {"Split", 18, "axis"},
                           {"Flatten", 13, "axis"},
                           {"LayerNormalization", 17, "axis"},
                           {"RMSNormalization", 23, "axis"},
                           {"LpNormalization", 22, "axis"},
                           {"MeanVarianceNormalization", 13, "axes", 1, true},
                           {"Gather", 13, "axis"},
                           {"GatherElements", 13, "axis"},
                           {"Scatter", 9, "axis"},
                           {"ScatterElements", 16, "axis"},
                           {"TensorScatter", 24, "axis"},
                           {"TopK", 11, "axis"},
                           {"Compress", 11, "axis"},
                           {"OneHot", 11, "axis"},
                           {"QuantizeLinear", 13, "axis", 1, false, false},
                           {"DequantizeLinear", 13, "axis"},
                           {"CumSum", 14, nullptr},
                           {"CumProd", 26, nullptr},
                           {"DFT", 17, "axis"},
                           {"DFT", 20, nullptr, 2},
                           {"Unsqueeze", 11, "axes", 1, true},
                           {"Unsqueeze", 13, nullptr, 1, true},
                           {"Squeeze", 11, "axes", 1, true},
                           {"Squeeze", 13, nullptr, 1, true},
                           {"Pad", 18, nullptr, 3, true},
                           {"Slice", 13, nullptr, 3, true},
                           {"CenterCropPad", 18, "axes", 1, true},
                           {"Resize", 18, "axes", 1, true}};
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
      v.push_back({op, 11, "axes", 1, true});
      v.push_back({op, 18, nullptr, 1, true});
    }
    return v;
  }();
  return all;
}

HostTensor ints(const std::vector<int64_t>& v) { return HostTensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); }

// Returns a node whose axis is at[0], or whose axes are `at`, for a first input with the dims d.
OneNode node(const Axis& a, Dims d, const std::vector<size_t>& at) {
  OneNode n;
  n.op = a.op;
  n.version = a.version;
  const size_t axis = at[0];
  const size_t k = at.size();
  if (n.op == "Squeeze") {
    for (const size_t i : at) d[i] = 1;
  }
  if (n.op == "OneHot") {
    n.inputs = {HostTensor::of<int64_t>({2, 2}, {0, 1, 2, 1}), HostTensor::of<int64_t>({}, {3}), random_tensor({2}, 4)};
    return n;
  }
  if (n.op == "DequantizeLinear") {
    n.inputs = {HostTensor::of<int64_t>(d, std::vector<int64_t>(static_cast<size_t>(numel(d)), 3)).cast(DType::i8),
                random_tensor({d[axis]}, 4)};
    return n;
  }
  if (n.op == "Unsqueeze") {
    n.inputs = {random_tensor(d, 5)};
    return n;
  }
  const bool logarithm = n.op == "ReduceLogSum";
  if (n.op == "DFT") d.back() = 1;  // the last dim of a real signal has size 1
  n.inputs = {random_tensor(d, 5)};
  if (logarithm) {  // inputs must be positive
    std::vector<double> x = n.inputs[0].to_doubles();
    for (double& e : x) e = e * e + 1;
    n.inputs[0] = HostTensor::of<double>(d, x);
  }
  Dims one = d;
  one[axis] = 1;
  const HostTensor zeros = HostTensor::of<int64_t>(one, std::vector<int64_t>(static_cast<size_t>(numel(one)), 0));
  if (n.op == "Concat") n.inputs.push_back(random_tensor(d, 6));
  if (n.op == "Split") n.inputs.push_back(ints({1, d[axis] - 1}));
  if (n.op == "LayerNormalization" || n.op == "RMSNormalization") {
    // With a smaller epsilon, a norm of few elements is too steep for finite differences.
    n.attrs.set("epsilon", 0.1);
    n.inputs.push_back(random_tensor(Dims(d.begin() + static_cast<int64_t>(axis), d.end()), 9));
  }
  if (n.op == "Gather") n.inputs.push_back(ints({0, -1}));
  if (n.op == "GatherElements") n.inputs.push_back(zeros);
  if (n.op == "Scatter" || n.op == "ScatterElements") {
    n.inputs.push_back(zeros);
    n.inputs.push_back(random_tensor(one, 7));
  }
  if (n.op == "TensorScatter") n.inputs.push_back(random_tensor(one, 7));
  if (n.op == "TopK") n.inputs.push_back(ints({1}));
  if (n.op == "Compress") n.inputs.push_back(ints({1}).cast(DType::boolean));
  if (n.op == "QuantizeLinear") {
    n.inputs.push_back(HostTensor::of<double>({d[axis]}, std::vector<double>(static_cast<size_t>(d[axis]), 0.1)));
    n.inputs.push_back(ints(std::vector<int64_t>(static_cast<size_t>(d[axis]), 1)).cast(DType::u8));
  }
  if (n.op == "DFT" && !a.attribute) n.inputs.emplace_back();
  if (n.op == "Pad") {
    n.inputs.push_back(ints(std::vector<int64_t>(2 * k, 1)));
    n.inputs.emplace_back();
  }
  if (n.op == "Slice") {
    n.inputs.push_back(ints(std::vector<int64_t>(k, -1)));
    n.inputs.push_back(ints(std::vector<int64_t>(k, -9)));
  }
  if (n.op == "CenterCropPad") n.inputs.push_back(ints(std::vector<int64_t>(k, 5)));
  if (n.op == "Resize") {
    n.inputs.resize(3);
    n.inputs.push_back(ints(std::vector<int64_t>(k, 5)));
  }
  return n;
}

void set_axes(OneNode& n, const Axis& a, const std::vector<int64_t>& values) {
  if (a.attribute && a.list) {
    n.attrs.set(a.attribute, values);
  } else if (a.attribute) {
    n.attrs.set(a.attribute, values.at(0));
  } else {
    n.inputs.insert(n.inputs.begin() + static_cast<int64_t>(a.place),
                    a.list ? ints(values) : HostTensor::of<int64_t>({}, values));
  }
  if (n.op == "Slice") n.inputs.push_back(ints(std::vector<int64_t>(values.size(), -1)));  // steps of -1
}

bool takes(const Axis& a, size_t axis, size_t rank) {
  const std::string op = a.op;
  return op == "DFT" ? axis + 1 < rank : op == "TensorScatter" ? axis > 0 : true;
}

double dot(const HostTensor& a, const HostTensor& b) {
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Checks the gradient of <dy, output 0> with respect to input i along a random direction. Returns its error over the
// tolerance, and whether 1.01 times the gradient would be detected.
struct Verdict {
  double excess = 0;
  bool catches = false;
};
Verdict along_a_direction(OneNode n, size_t i, const HostTensor& dy, const HostTensor& gradient) {
  constexpr double kStep = 0x1p-14;
  const HostTensor x = n.inputs[i], direction = random_tensor(x.dims(), 17);
  const auto loss = [&](double step) {
    std::vector<double> v = x.to_doubles();
    const std::vector<double> d = direction.to_doubles();
    for (size_t k = 0; k < v.size(); ++k) v[k] += step * d[k];
    n.inputs[i] = HostTensor::of<double>(x.dims(), v);
    return dot(run_node(n, {}, {}, DType::f64).outputs[0], dy);
  };
  const double slope = (8 * (loss(kStep) - loss(-kStep)) - (loss(2 * kStep) - loss(-2 * kStep))) / (12 * kStep);
  const double claimed = dot(gradient, direction), allowed = 1e-6 * (std::abs(slope) + 1e-2);
  return {std::abs(claimed - slope) / allowed, std::abs(1.01 * claimed - slope) > allowed};
}

}  // namespace

TEST_CASE("negative axes are the positive ones") {
  size_t nodes = 0, gradients = 0, caught = 0;
  for (const Axis& a : axes()) {
    REQUIRE(find_onnx_op("", a.op, a.version) != nullptr);
    const std::string op = a.op;
    for (const Dims& d : {Dims{2, 3, 4}, Dims{2, 3, 2, 1, 2}}) {
      const size_t rank = op == "OneHot" ? 3 : d.size() + (op == "Unsqueeze" ? 1 : 0);
      for (size_t axis = 0; axis < rank; ++axis) {
        if (!takes(a, axis, d.size()) || (op == "Split" && d[axis] < 2)) continue;
        std::vector<std::vector<size_t>> choices{{axis}};
        if (a.list && axis + 1 < rank) choices.push_back({axis, axis + 1});
        for (const std::vector<size_t>& at : choices) {
          // Unsqueeze counts axes in its output.
          const size_t counted = op == "Unsqueeze" ? d.size() + at.size() : rank;
          NodeRun runs[2];
          OneNode positive;
          for (const bool negative : {false, true}) {
            std::vector<int64_t> values;
            for (const size_t i : at)
              values.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(negative ? counted : 0));
            INFO(op << "-" << a.version << " of " << to_string(d) << ", axes " << to_string(values));
            OneNode n = node(a, d, at);
            set_axes(n, a, values);
            if (!negative) positive = n;
            std::vector<size_t> wrt;
            for (size_t i = 0; i < n.inputs.size() && wrt.empty(); ++i) {
              if (n.inputs[i] && is_float(n.inputs[i].dtype())) wrt.push_back(i);
            }
            runs[negative] = run_node(n, {}, {}, DType::f64);
            if (a.gradient)
              runs[negative] = run_node(n, random_tensor(runs[negative].outputs[0].dims(), 3), wrt, DType::f64);
          }
          INFO(op << "-" << a.version << " of " << to_string(d) << ", " << at.size() << " axes from " << axis);
          CHECK(same_bits(runs[0].outputs[0], runs[1].outputs[0]));
          for (const auto& [i, g] : runs[0].grads) CHECK(same_bits(g, runs[1].grads.at(i)));
          CHECK(runs[0].grads.size() == (a.gradient ? 1 : 0));
          ++nodes;
          for (const auto& [i, g] : runs[0].grads) {
            const Verdict v = along_a_direction(positive, i, random_tensor(runs[0].outputs[0].dims(), 3), g);
            CHECK(v.excess <= 1);
            ++gradients;
            caught += v.catches;
          }
        }
      }
    }
  }
  // The other gradients are 0, so the factor 1.01 does not change them: norms of a single element, or sums of a
  // normalized result.
  CHECK(caught * 20 > gradients * 17);
  std::cout << "negative axes: " << axes().size() << " operators and versions, " << nodes << " nodes, " << gradients
            << " gradients, " << caught << " wrong ones caught\n";
}
