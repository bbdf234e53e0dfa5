// Cases of LSTM, GRU, RNN and their gradients: both directions, sequence lengths of 0 to T, peepholes, every
// activation.
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

struct Layer {
  int64_t time, batch, hidden;
  bool reverse = false, lengths = false, optional = false;  // optional: peepholes of LSTM, linear_before_reset of GRU
};

// Attributes of a layer. Activations are numbered as in backend/cpu/recurrent/recurrent.h: sigmoid 0, tanh 1, relu 2,
// hard sigmoid 3, leaky relu 4, elu 5, softsign 6, affine 7, scaled tanh 8.
Attrs attrs(const Layer& l, std::vector<int64_t> activation) {
  std::vector<double> alpha, beta;
  for (const int64_t a : activation) {
    alpha.push_back(a == 3 ? 0.2 : a == 4 ? 0.1 : a == 5 ? 1.3 : a == 7 ? 0.8 : a == 8 ? 1.2 : 0);
    beta.push_back(a == 3 ? 0.5 : a == 7 ? 0.1 : a == 8 ? 0.7 : 0);
  }
  return {{"reverse", int64_t{l.reverse}}, {"activation", activation}, {"alpha", alpha}, {"beta", beta}};
}

Operand part(Dims d, Role role, double reach = 1) { return {std::move(d), uniform(-reach, reach), role}; }
Operand maybe(bool present, Operand o) {
  if (!present) o = {{0}, uniform(0, 1), Role::absent};
  return o;
}
Operand lengths(const Layer& l) { return maybe(l.lengths, {{l.batch}, integers(0, l.time), Role::integer}); }

OpCase lstm(const Layer& l, std::vector<int64_t> activation, std::vector<size_t> seeded = {0, 1, 2}) {
  const int64_t h = l.hidden;
  return {
      {part({l.time, l.batch, 4 * h}, Role::value), part({4 * h, h}, Role::value, 0.5), part({l.batch, h}, Role::value),
       part({l.batch, h}, Role::value), lengths(l), maybe(l.optional, part({3 * h}, Role::value))},
      attrs(l, std::move(activation)),
      std::move(seeded)};
}
OpCase lstm_grad(const Layer& l, bool upstream) {
  const int64_t h = l.hidden;
  const Dims state{l.batch, h}, all{l.time, l.batch, h};
  const Role r = Role::held;
  return {{part({4 * h, h}, r, 0.5),
           part(state, r),
           part(state, r),
           lengths(l),
           maybe(l.optional, part({3 * h}, r)),
           {{l.time, l.batch, 4 * h}, uniform(0.1, 0.9), r},
           part(all, r),
           part(all, r),
           part(all, r),
           maybe(upstream, part(state, r)),
           maybe(upstream, part(state, r))},
          attrs(l, {0, 1, 1}),
          {0},
          false};
}

OpCase gru(const Layer& l, std::vector<int64_t> activation, std::vector<size_t> seeded = {0, 1}) {
  const int64_t h = l.hidden;
  return {{part({l.time, l.batch, 3 * h}, Role::value), part({3 * h, h}, Role::value, 0.5),
           part({l.batch, h}, Role::value), lengths(l), maybe(l.optional, part({h}, Role::value))},
          attrs(l, std::move(activation)),
          std::move(seeded)};
}
OpCase gru_grad(const Layer& l, bool upstream) {
  const int64_t h = l.hidden;
  const Dims state{l.batch, h}, all{l.time, l.batch, h};
  const Role r = Role::held;
  return {{part({3 * h, h}, r, 0.5),
           part(state, r),
           lengths(l),
           maybe(l.optional, part({h}, r)),
           {{l.time, l.batch, 3 * h}, uniform(0.1, 0.9), r},
           part(all, r),
           part(all, r),
           part(all, r),
           maybe(upstream, part(state, r))},
          attrs(l, {0, 1}),
          {0},
          false};
}

OpCase rnn(const Layer& l, int64_t activation, std::vector<size_t> seeded = {0, 1}) {
  const int64_t h = l.hidden;
  return {{part({l.time, l.batch, h}, Role::value), part({h, h}, Role::value, 0.5), part({l.batch, h}, Role::value),
           lengths(l)},
          attrs(l, {activation}),
          std::move(seeded)};
}
OpCase rnn_grad(const Layer& l, bool upstream) {
  const int64_t h = l.hidden;
  const Dims state{l.batch, h}, all{l.time, l.batch, h};
  const Role r = Role::held;
  return {
      {part({h, h}, r, 0.5), part(state, r), lengths(l), part(all, r), part(all, r), maybe(upstream, part(state, r))},
      attrs(l, {1}),
      {0},
      false};
}

const std::vector<Layer> kLayers = {{1, 1, 1},
                                    {3, 2, 2},
                                    {3, 2, 2, true},
                                    {3, 2, 2, false, false, true},
                                    {4, 3, 2, false, true},
                                    {4, 3, 2, true, true},
                                    {4, 3, 2, true, true, true},
                                    {3, 1, 3, true, false, true},
                                    {1, 3, 1, true},
                                    {2, 1, 2, false, true, true},
                                    {5, 1, 1, false, true},
                                    {2, 4, 1, true, true},
                                    {3, 0, 2, false, true},
                                    {2, 0, 1, true, false, true},
                                    {0, 2, 2},
                                    {0, 1, 2, true, true, true}};
const Layer kLarge = {12, 16, 20, true, true, true};

}  // namespace

void add_recurrent_cases(OpSpecs& s) {
  for (const char* op : {"LSTM", "LSTMGrad", "GRU", "GRUGrad", "RNN", "RNNGrad"}) {
    s[op].fp32_tolerance = 1e-5;
    s[op].inner_steps = 4;  // the state or the gates' gradients are rounded before each step's product
  }
  for (const Layer& l : kLayers) {
    s["LSTM"].cases.push_back(lstm(l, {0, 1, 1}));
    s["LSTMGrad"].cases.push_back(lstm_grad(l, l.reverse));
    s["GRU"].cases.push_back(gru(l, {0, 1}));
    s["GRUGrad"].cases.push_back(gru_grad(l, l.reverse));
    s["RNN"].cases.push_back(rnn(l, 1));
    s["RNNGrad"].cases.push_back(rnn_grad(l, l.reverse));
  }
  const Layer small{3, 2, 2};
  for (const size_t only : {0, 1, 2}) s["LSTM"].cases.push_back(lstm(small, {0, 1, 1}, {only}));
  for (const size_t only : {0, 1}) {
    s["GRU"].cases.push_back(gru(small, {0, 1}, {only}));
    s["RNN"].cases.push_back(rnn(small, 1, {only}));
  }
  for (const int64_t a : {0, 7, 8}) {  // smooth activations at every position
    s["LSTM"].cases.push_back(lstm(small, {a, 1, 8}));
    s["GRU"].cases.push_back(gru(small, {a, 8}));
    s["RNN"].cases.push_back(rnn(small, a));
  }
  for (const int64_t a : {2, 3, 4, 5, 6}) s["RNN"].cases.push_back(rnn({2, 1, 2}, a));
  OpCase large = lstm(kLarge, {0, 1, 1});
  s["LSTM"].cases.push_back(large);
  s["LSTMGrad"].cases.push_back(lstm_grad(kLarge, true));
  s["GRU"].cases.push_back(gru(kLarge, {0, 1}));
  s["GRUGrad"].cases.push_back(gru_grad(kLarge, true));
  s["RNN"].cases.push_back(rnn(kLarge, 1));
  s["RNNGrad"].cases.push_back(rnn_grad(kLarge, true));
}

}  // namespace amp::test
