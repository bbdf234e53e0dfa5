// LSTM, GRU and RNN (ONNX 7+) with each direction, sequence_lens, initial states, peepholes and layout (14). One MatMul
// computes X W^T + b of all time steps. The core operators (backend/cpu/recurrent/recurrent.h) compute the recurrence
// of one direction.
#include "backend/cpu/recurrent/recurrent.h"

#include <algorithm>

#include "backend/node_work.h"
#include "ops/compose.h"
#include "ops/composed/recurrent_decomposition.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

// The sizes of a layer, from the dims of xg (T, B, G * H) and R (G * H, H), for G gates.
struct Sizes {
  int64_t time, batch, gates, hidden;
};
Sizes sizes(const InferCtx& c, size_t xg, size_t r) {
  const Dims& x = c.in(xg).dims;
  return {x.at(0), x.at(1), x.at(2), c.in(r).dims.at(1)};
}
void infer_forward(InferCtx& c, bool lstm, bool gru) {
  const Sizes s = sizes(c, 0, 1);
  const DType t = c.in(0).dtype;
  c.out(t, {s.time, s.batch, s.hidden});
  c.out(t, {s.batch, s.hidden});
  if (lstm) c.out(t, {s.batch, s.hidden});
  if (lstm || gru) {
    c.out(t, {s.time, s.batch, s.gates});
    c.out(t, {s.time, s.batch, s.hidden});
  }
}
void infer_lstm(InferCtx& c) { infer_forward(c, true, false); }
void infer_gru(InferCtx& c) { infer_forward(c, false, true); }
void infer_rnn(InferCtx& c) { infer_forward(c, false, false); }

// Infers the outputs of a gradient operator: dxg, dR, dh0, then outputs with the dims `more`.
void infer_gradient(InferCtx& c, size_t y, int64_t gates, std::vector<Dims> more) {
  const Dims d = c.in(y).dims;
  const DType t = c.in(y).dtype;
  c.out(t, {d[0], d[1], gates * d[2]});
  c.out(t, {gates * d[2], d[2]});
  c.out(t, {d[1], d[2]});
  for (Dims& m : more) c.out(t, std::move(m));
}
void infer_lstm_grad(InferCtx& c) {
  const Dims d = c.in(7).dims;
  infer_gradient(c, 7, 4, {{d[1], d[2]}, {3 * d[2]}});
}
void infer_gru_grad(InferCtx& c) { infer_gradient(c, 6, 3, {{c.in(6).dims[2]}}); }
void infer_rnn_grad(InferCtx& c) { infer_gradient(c, 3, 1, {}); }

ValueId dy_or_none(GradBuilder& g, size_t i) { return g.has_dy(i) ? g.dy(i) : ValueId{}; }
void add_all(GradBuilder& g, const std::vector<ValueId>& grads, const std::vector<size_t>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) g.add_grad(inputs[i], grads[i]);
}
void grad_lstm(GradBuilder& g) {
  const auto d = g.b.ops("LSTMGrad",
                         {g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.out(3), g.out(4), g.out(0), dy_or_none(g, 0),
                          dy_or_none(g, 1), dy_or_none(g, 2)},
                         g.attrs());
  add_all(g, d, {0, 1, 2, 3, 5});
}
void grad_gru(GradBuilder& g) {
  const auto d = g.b.ops(
      "GRUGrad", {g.in(1), g.in(2), g.in(3), g.in(4), g.out(2), g.out(3), g.out(0), dy_or_none(g, 0), dy_or_none(g, 1)},
      g.attrs());
  add_all(g, d, {0, 1, 2, 4});
}
void grad_rnn(GradBuilder& g) {
  const auto d =
      g.b.ops("RNNGrad", {g.in(1), g.in(2), g.in(3), g.out(0), dy_or_none(g, 0), dy_or_none(g, 1)}, g.attrs());
  add_all(g, d, {0, 1, 2});
}

template <PrepareWithWorkspace prepare>
struct RegisterRecurrent {
  RegisterRecurrent(const char* name, void (*infer)(InferCtx&), Gradient gradient,
                    Decomposition decomposition = nullptr)
      : op(def(name, infer, gradient, decomposition)), kernel(DeviceKind::cpu, name, with_workspace<prepare>) {}
  static OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, Decomposition decomposition) {
    OpDef d = op_with_workspace<prepare>(name, infer, gradient);
    d.decomposition = decomposition;
    return d;
  }
  RegisterOp op;
  RegisterKernel kernel;
};
const RegisterRecurrent<lstm> lstm_op{"LSTM", infer_lstm, grad_lstm, decompose_lstm};
const RegisterRecurrent<lstm_grad> lstm_grad_op{"LSTMGrad", infer_lstm_grad, nullptr};
const RegisterRecurrent<gru> gru_op{"GRU", infer_gru, grad_gru, decompose_gru};
const RegisterRecurrent<gru_grad> gru_grad_op{"GRUGrad", infer_gru_grad, nullptr};
const RegisterRecurrent<rnn> rnn_op{"RNN", infer_rnn, grad_rnn, decompose_rnn};
const RegisterRecurrent<rnn_grad> rnn_grad_op{"RNNGrad", infer_rnn_grad, nullptr};

// Returns the FLOPs. In each step, forward multiplies the state by R (G * H, H), and backward computes the gradients
// of the state and of R. X W^T is a separate MatMul.
double forward_flops(const KernelArgs& a) {
  return 2.0 * static_cast<double>(a.in[0].numel()) * static_cast<double>(a.in[1].dims.at(1));
}
double backward_flops(const KernelArgs& a) {
  return 4.0 * static_cast<double>(a.out[0].numel()) * static_cast<double>(a.in[0].dims.at(1));
}
const RegisterFlops flops[] = {{"LSTM", forward_flops},      {"GRU", forward_flops},      {"RNN", forward_flops},
                               {"LSTMGrad", backward_flops}, {"GRUGrad", backward_flops}, {"RNNGrad", backward_flops}};

// ---- Lowering of ONNX operators
std::vector<std::string> activation_names(const Lowering& l, std::vector<std::string> fallback) {
  const auto it = l.attrs.items().find("activations");
  if (it == l.attrs.items().end()) return fallback;
  const auto* names = std::get_if<std::vector<std::string>>(&it->second);
  if (!names || names->size() != fallback.size())
    fail(Exit::model, "E_ATTR", cat(l.node.op, " needs ", fallback.size(), " activations"));
  return *names;
}

// Returns the activation functions. Functions that have parameters take the next elements of activation_alpha and
// activation_beta.
std::vector<Activation> activations(const Lowering& l, const std::vector<std::string>& fallback) {
  const std::vector<double> alphas = l.attrs.floats("activation_alpha"), betas = l.attrs.floats("activation_beta");
  size_t a = 0, b = 0;
  struct Known {
    const char* name;
    Activation::Kind kind;
    bool alpha, beta;
    double alpha_default, beta_default;
  };
  static const Known kKnown[] = {{"sigmoid", Activation::sigmoid, false, false, 0, 0},
                                 {"tanh", Activation::tanh, false, false, 0, 0},
                                 {"relu", Activation::relu, false, false, 0, 0},
                                 {"hardsigmoid", Activation::hard_sigmoid, true, true, 0.2, 0.5},
                                 {"leakyrelu", Activation::leaky_relu, true, false, 0.01, 0},
                                 {"elu", Activation::elu, true, false, 1, 0},
                                 {"softsign", Activation::softsign, false, false, 0, 0},
                                 {"affine", Activation::affine, true, true, 1, 0},
                                 {"scaledtanh", Activation::scaled_tanh, true, true, 1, 1}};
  std::vector<Activation> out;
  for (std::string name : activation_names(l, fallback)) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
    const auto it = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return name == k.name; });
    if (it == std::end(kKnown)) l.unsupported("activation " + name);
    Activation f{it->kind, it->alpha_default, it->beta_default};
    if (it->alpha && a < alphas.size()) f.alpha = alphas[a++];
    if (it->beta && b < betas.size()) f.beta = betas[b++];
    out.push_back(f);
  }
  return out;
}

Attrs core_attrs(const std::vector<Activation>& all, size_t first, size_t n, bool reverse) {
  std::vector<int64_t> kinds;
  std::vector<double> alpha, beta;
  for (size_t i = first; i < first + n; ++i) {
    kinds.push_back(all[i].kind);
    alpha.push_back(all[i].alpha);
    beta.push_back(all[i].beta);
  }
  return {{"reverse", int64_t{reverse}}, {"activation", kinds}, {"alpha", alpha}, {"beta", beta}};
}

// gates: X W^T of all time steps, plus the biases in B (2 * gates * H) that are added outside of the recurrence. W
// (gates * H, input size) is the weight of one direction. reset_bias: the bias of a GRU that is added inside of the
// recurrence (linear_before_reset).
struct Projected {
  ValueId gates, reset_bias;
};
Projected project(Lowering& l, ValueId x, int64_t direction, int64_t gates, int64_t H, bool reset_after) {
  Builder& b = l.b;
  Projected p;
  p.gates = b.op("MatMul", {x, entry(b, l.in(1), direction)},
                 {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}});
  if (l.has(3)) {
    const ValueId both = entry(b, l.in(3), direction);
    const ValueId wb = slice(b, both, 0, 0, gates * H);
    ValueId rb = slice(b, both, 0, gates * H, gates * H);
    if (reset_after) {
      p.reset_bias = slice(b, rb, 0, 2 * H, H);
      rb = concat(b, {slice(b, rb, 0, 0, 2 * H), filled(b, 0, b.dtype(x), {H})}, 0);
    }
    p.gates = add(b, p.gates, add(b, wb, rb));
  } else if (reset_after) {
    p.reset_bias = filled(b, 0, b.dtype(x), {H});
  }
  return p;
}

std::vector<std::string> default_activations(const std::string& kind, int64_t directions) {
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) {
    if (kind != "RNN") names.push_back("Sigmoid");
    names.push_back("Tanh");
    if (kind == "LSTM") names.push_back("Tanh");
  }
  return names;
}

void lower_recurrent(Lowering& l) {
  Builder& b = l.b;
  const std::string& kind = l.node.op;
  const int64_t gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
  if (l.attrs.has("clip")) l.unsupported("clip");
  if (l.attrs.i("input_forget", 0) != 0) l.unsupported("input_forget");
  const std::string direction = l.attrs.s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail(Exit::model, "E_ATTR", "direction '" + direction + "'");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = l.attrs.i("layout", 0) != 0, reset_after = l.attrs.i("linear_before_reset", 0) != 0;
  const auto swap01 = [&](ValueId v) { return batch_first ? b.transpose(v, {1, 0, 2}) : v; };
  const ValueId x = swap01(l.in(0));
  const Dims dx = b.dims(x), dr = l.dims(2);
  const int64_t T = dx.at(0), B = dx.at(1), H = dr.at(2);
  if (l.dims(1) != Dims{directions, gates * H, dx[2]} || dr != Dims{directions, gates * H, H}) {
    fail(Exit::model, "E_SHAPE",
         cat(kind, " of X ", to_string(dx), " with W ", to_string(l.dims(1)), " and R ", to_string(dr)));
  }
  const std::vector<Activation> functions = activations(l, default_activations(kind, directions));
  const DType t = b.dtype(x);
  const ValueId zeros = filled(b, 0, t, {B, H});
  const auto initial = [&](size_t i, int64_t d) { return l.has(i) ? entry(b, swap01(l.in(i)), d) : zeros; };
  const ValueId lens = l.has(4) ? l.in(4) : ValueId{};

  std::vector<std::vector<ValueId>> ends;  // indexed by direction: y of all steps, last states h and c
  for (int64_t d = 0; d < directions; ++d) {
    const Projected p = project(l, x, d, gates, H, kind == "GRU" && reset_after);
    const ValueId r = entry(b, l.in(2), d);
    const size_t n = functions.size() / static_cast<size_t>(directions);
    const Attrs a = core_attrs(functions, static_cast<size_t>(d) * n, n, direction == "reverse" || d == 1);
    std::vector<ValueId> in{p.gates, r, initial(5, d)};
    if (kind == "LSTM")
      in.insert(in.end(), {initial(6, d), lens, l.has(7) ? entry(b, l.in(7), d) : ValueId{}});
    else if (kind == "GRU")
      in.insert(in.end(), {lens, p.reset_bias});
    else
      in.push_back(lens);
    ends.push_back(b.ops(kind, in, a));
  }
  // Y is (T, D, B, H), states are (D, B, H). In the batch-first layout they are (B, T, D, H) and (B, D, H).
  const auto stack = [&](size_t i, const Dims& one, int64_t axis) {
    std::vector<ValueId> parts;
    for (const auto& e : ends) parts.push_back(b.reshape(e[i], one));
    return concat(b, parts, axis);
  };
  const ValueId y = stack(0, {T, 1, B, H}, 1);
  l.out(0, batch_first ? b.transpose(y, {2, 0, 1, 3}) : y);
  l.out(1, swap01(stack(1, {1, B, H}, 0)));
  if (kind == "LSTM") l.out(2, swap01(stack(2, {1, B, H}, 0)));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"LSTM", lower_recurrent, 7, {}}},
                             RegisterOnnx{{"GRU", lower_recurrent, 7, {}}},
                             RegisterOnnx{{"RNN", lower_recurrent, 7, {}}}};

}  // namespace
}  // namespace amp
