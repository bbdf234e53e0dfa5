// Cases of elementwise operators: every family on the same generated shapes.
#include "graph/builder.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

// The sizes include more than one vector and more than one chunk.
const std::vector<Dims>& shapes() {
  static const std::vector<Dims> all = [] {
    std::vector<Dims> v = small_shapes();
    v.push_back({1025});
    return v;
  }();
  return all;
}

const Dims kLarge = {300, 257};

OpSpec unary(const Draw& x, const Attrs& attrs = {}, bool smooth = true) {
  OpSpec s;
  s.elementwise = true;
  for (const Dims& d : shapes()) s.cases.push_back({{{d, x}}, attrs});
  s.cases.push_back({{{kLarge, x}}, attrs, {0}, smooth});
  return s;
}

OpSpec binary(const Draw& x, const Draw& y, const Attrs& attrs = {}, Role role = Role::value, bool broadcasts = true) {
  OpSpec s;
  s.elementwise = true;
  size_t way = 0;
  for (const Dims& d : shapes()) {
    // The shapes take turns in the kind of broadcasting and in the order of the operands.
    auto [a, b] = broadcasting(d, broadcasts ? 1 + way % 5 : 0);
    if (way++ % 2) std::swap(a, b);
    s.cases.push_back({{{a, x, role}, {b, y, role}}, attrs});
    if (way % 3 == 0) s.cases.push_back({{{d, x, role}, {d, y, role}}, attrs});
  }
  s.cases.push_back({{{kLarge, x, role}, {broadcasts ? Dims{257} : kLarge, y, role}}, attrs});
  if (broadcasts) s.cases.push_back({{{{300, 1}, x, role}, {kLarge, y, role}}, attrs});
  return s;
}

OpSpec flat(OpSpec s) {
  s.zero_gradient = true;
  return s;
}
OpSpec without_differences(OpSpec s) {
  for (OpCase& c : s.cases) c.finite_differences = false;
  return s;
}
OpSpec joined(OpSpec a, const OpSpec& b) {
  a.cases.insert(a.cases.end(), b.cases.begin(), b.cases.end());
  return a;
}
OpSpec in_role(OpSpec s, Role role) {
  for (OpCase& c : s.cases) {
    for (Operand& o : c.in) o.role = role;
  }
  return s;
}

// Returns the cases of an operator in a gradient, f(x or y, dy): it is run but not differentiated.
OpSpec backward(const Draw& x, const Attrs& attrs = {}) {
  return without_differences(binary(x, uniform(-4, 4), attrs, Role::held, false));
}

// Returns a surrogate for Detach, which passes no gradient: Sign(x + 10) is the constant 1 for every x that the cases
// draw.
ValueId constant(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  return b.op("Sign", {b.op("Add", {in[0], b.scalar(10, b.dtype(in[0]))})});
}

const std::vector<double> kIntegers = {-4, -3, -2, -1, 0, 1, 2, 3, 4};

void arithmetic(OpSpecs& s) {
  const Draw any = uniform(-2, 2), no_zero = uniform(-2, 2, {0}, 0.5);
  s["Add"] = binary(any, any);
  s["Sub"] = binary(any, any);
  s["Mul"] = binary(any, any);
  s["Div"] = binary(any, no_zero);
  s["Neg"] = unary(any);
  s["Abs"] = unary(uniform(-2, 2, {0}));
  s["Sign"] = flat(unary(uniform(-2, 2, {0})));
  s["Detach"] = flat(unary(any));
  s["Detach"].surrogate = constant;
  const Draw dividend = uniform(-3.8, 3.8, kIntegers, 0.2), divisor = uniform(1, 1.05);
  s["Mod"] = joined(binary(dividend, divisor), binary(dividend, divisor, {{"fmod", int64_t{1}}}));
  s["Max"] = s["Min"] = binary(lattice(0.05), lattice(0.05, 0.5));
  const std::vector<double> bounds = {-0.5, 0.75};
  s["Clip"] =
      joined(unary(uniform(-2, 2, bounds), {{"min", -0.5}, {"max", 0.75}}), unary(uniform(-2, 2, {0}), {{"min", 0.0}}));
}

void functions(OpSpecs& s) {
  const Draw any = uniform(-2, 2), positive = uniform(0.5, 3), no_zero = uniform(-2, 2, {0}, 0.5);
  s["Sqrt"] = unary(positive);
  s["Reciprocal"] = unary(no_zero);
  s["Exp"] = s["Erf"] = s["Sin"] = s["Cos"] = unary(uniform(-3, 3));
  s["Log"] = unary(positive);
  s["Floor"] = s["Ceil"] = flat(unary(uniform(-3.5, 3.5, kIntegers)));
  s["Round"] = flat(unary(uniform(-2.4, 2.4, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})));
  s["Pow"] = binary(uniform(0.5, 2), uniform(-2, 3));
  // An integer exponent permits any base.
  for (const Dims& d : {Dims{}, Dims{5}, Dims{2, 3}}) {
    s["Pow"].cases.push_back({{{d, any}, {{}, integers(2, 4), Role::held}}, {}});
  }
}

void activations(OpSpecs& s) {
  const Draw any = uniform(-4, 4), no_zero = uniform(-4, 4, {0});
  s["Relu"] = unary(no_zero);
  s["LeakyRelu"] = joined(unary(no_zero, {{"alpha", 0.2}}), unary(no_zero));
  s["Elu"] = joined(unary(no_zero, {{"alpha", 1.5}}), unary(no_zero));
  s["HardSigmoid"] =
      joined(unary(uniform(-4, 4, {-2.5, 2.5})), unary(uniform(-4, 4, {-3, 3}), {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
  s["HardSwish"] = unary(uniform(-4, 4, {-3, 3}));
  s["Swish"] = joined(unary(any), unary(any, {{"alpha", 1.702}}));
  for (const char* op : {"Sigmoid", "Tanh", "Softplus", "Gelu", "GeluTanh"}) s[op] = unary(any);
  // These operators occur in gradients.
  const Draw unit = uniform(0.05, 0.95);
  const auto grad = [&](const char* op, const Draw& x, const Attrs& attrs = {}) { s[op] = backward(x, attrs); };
  grad("ReluGrad", no_zero);
  grad("SigmoidGrad", unit);
  grad("TanhGrad", uniform(-0.95, 0.95));
  grad("LeakyReluGrad", no_zero, {{"alpha", 0.2}});
  grad("EluGrad", no_zero, {{"alpha", 1.5}});
  grad("HardSigmoidGrad", unit);
  grad("HardSwishGrad", uniform(-4, 4, {-3, 3}));
  for (const char* op : {"SoftplusGrad", "SwishGrad", "GeluGrad", "GeluTanhGrad", "ErfGrad"}) grad(op, any);
  grad("SqrtGrad", uniform(0.5, 3));
  grad("ReciprocalGrad", uniform(0.5, 3));
  grad("ClipGrad", uniform(-2, 2, {-0.5, 0.75}), {{"min", -0.5}, {"max", 0.75}});
  for (const char* op : {"Tanh", "Gelu", "GeluTanh", "GeluGrad", "GeluTanhGrad"}) s[op].fp32_floor = 1;
  s["ErfGrad"].fp32_tolerance = 5e-6;  // the formula has e^(-x^2), and fp32 rounds x^2 before the exponential
}

void more_activations(OpSpecs& s) {
  const Draw any = uniform(-4, 4), no_zero = uniform(-4, 4, {0}), half = uniform(-2, 2, {-0.5, 0.5});
  const auto pair = [&](const std::string& op, const Draw& x, const Attrs& attrs = {}) {
    s[op] = unary(x, attrs);
    s[op + "Grad"] = backward(x, attrs);
  };
  pair("Selu", no_zero);
  pair("Celu", no_zero, {{"alpha", 0.7}});
  pair("Softsign", no_zero);  // x avoids 0, where the third derivative jumps
  pair("Mish", any);
  pair("ThresholdedRelu", half, {{"alpha", 0.5}});
  pair("Shrink", half, {{"bias", 0.25}, {"lambd", 0.5}});
  s["PRelu"] = binary(no_zero, uniform(-1, 1));
  s["PReluGradSlope"] = backward(no_zero);
  for (const Dims& d : shapes()) {
    const Dims slope = broadcasting(d, 3).second;
    s["PReluGradX"].cases.push_back(
        {{{d, no_zero, Role::held}, {slope, uniform(-1, 1), Role::held}, {d, any, Role::held}}, {}, {0}, false});
  }
  s["PReluGradX"].cases.push_back(
      {{{kLarge, no_zero, Role::held}, {{257}, any, Role::held}, {kLarge, any, Role::held}}, {}, {0}, false});
  s["PReluGradX"].elementwise = true;
}

void more_functions(OpSpecs& s) {
  const auto pair = [&](const std::string& op, const Draw& x) {
    s[op] = unary(x);
    s[op + "Grad"] = backward(x);
  };
  const Draw inner = uniform(-0.8, 0.8), any = uniform(-2, 2);
  for (const char* op : {"Tan", "Asin", "Acos", "Atanh"}) pair(op, inner);
  for (const char* op : {"Atan", "Sinh", "Cosh", "Asinh"}) pair(op, any);
  pair("Acosh", uniform(1.5, 3));
}

void logic(OpSpecs& s) {
  const Draw small = lattice(0.5);  // draws equal elements, too
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    s[op] = without_differences(binary(small, small, {}, Role::held));
  }
  for (const char* op : {"And", "Or", "Xor"}) s[op] = without_differences(binary(coin(), coin(), {}, Role::boolean));
  s["Not"] = in_role(without_differences(unary(coin())), Role::boolean);
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    s[op] = without_differences(binary(integers(-100, 100), integers(-100, 100), {}, Role::integer));
  }
  s["BitwiseNot"] = in_role(without_differences(unary(integers(-100, 100))), Role::integer);
  s["BitShift"] = without_differences(
      joined(binary(integers(0, 1000), integers(0, 70), {{"direction", std::string("LEFT")}}, Role::integer),
             binary(integers(0, 1000), integers(0, 70), {{"direction", std::string("RIGHT")}}, Role::integer)));
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Draw special = [=](int64_t n, Rng& rng) {
    std::vector<double> v = lattice(0.5)(n, rng);
    for (size_t i = 0; i < v.size(); ++i) v[i] = i % 4 == 1 ? inf : i % 4 == 2 ? -inf : i % 4 == 3 ? nan : v[i];
    return v;
  };
  s["IsNaN"] = in_role(without_differences(unary(special)), Role::held);
  s["IsInf"] = in_role(without_differences(joined(unary(special), unary(special, {{"detect_negative", int64_t{0}}}))),
                       Role::held);
}

// Adds cases of fused programs (backend/fused_program.h). The tests of fusing run many more programs.
void fused(OpSpecs& s) {
  const auto program = [](const char* text) { return Attrs{{"program", std::string(text)}}; };
  const Draw draw = uniform(-2, 2);
  s["Fused"] = without_differences(
      in_role(joined(unary(draw, program("Gelu float32 0\nMul float32 1 0\nLeakyRelu float32 2 {alpha=f0.25} out")),
                     binary(draw, draw, program("Add float32 0 1 out\nTanh float32 2\nSub float32 3 1 out"))),
              Role::held));
}

}  // namespace

void add_elementwise_cases(OpSpecs& s) {
  fused(s);
  arithmetic(s);
  functions(s);
  activations(s);
  more_activations(s);
  more_functions(s);
  logic(s);
}

}  // namespace amp::test
