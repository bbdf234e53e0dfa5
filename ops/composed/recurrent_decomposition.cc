// Unrolls LSTM, GRU and RNN (ops/composed/recurrent_decomposition.h) by the formulas of ONNX, for second derivatives.
// Each time step adds operators to the graph; where a sequence has ended, a Where keeps its state.

#include "ops/composed/recurrent_decomposition.h"

#include <functional>

#include "backend/activation.h"
#include "ops/term.h"

namespace amp {

namespace {

// Returns the layer's activation function i of x.
Term activate(const Attrs& attrs, size_t i, Term x) {
  const Activation f = read_activation(attrs, i);
  const Attrs alpha{{"alpha", f.alpha}};
  switch (f.kind) {
    case Activation::sigmoid:
      return x.to("Sigmoid");
    case Activation::tanh:
      return x.to("Tanh");
    case Activation::relu:
      return x.to("Relu");
    case Activation::hard_sigmoid:
      return x.to("HardSigmoid", {{"alpha", f.alpha}, {"beta", f.beta}});
    case Activation::leaky_relu:
      return x.to("LeakyRelu", alpha);
    case Activation::elu:
      return x.to("Elu", alpha);
    case Activation::softsign:
      return x.to("Softsign");
    case Activation::affine:
      return f.alpha * x + f.beta;
    case Activation::scaled_tanh:
      return f.alpha * (f.beta * x).to("Tanh");
  }
  return x;
}

class Unrolled {
 public:
  Unrolled(Builder& b, const std::vector<ValueId>& in, const Attrs& a, size_t lens) : b_(b), in_(in), a_(a) {
    const Dims x = b.dims(in[0]);
    time_ = x.at(0), batch_ = x.at(1), hidden_ = b.dims(in[1]).at(1);
    if (has(lens)) lens_ = b.reshape(in[lens], {batch_, 1});
  }

  bool has(size_t i) const { return i < in_.size() && in_[i]; }
  Term in(size_t i) const { return {b_, in_.at(i)}; }
  // Returns the gates [first, first + n) of x. x is (B, G * H) for G gates, or a vector with the values of all gates.
  Term gates(Term x, int64_t first, int64_t n = 1) const {
    return {b_, slice(b_, x, static_cast<int64_t>(x.dims().size()) - 1, first * hidden_, n * hidden_)};
  }
  // Returns the product of h and the transpose of R's rows for the gates [first, first + n).
  Term recurrence(Term h, int64_t first, int64_t n) const {
    const ValueId rows = slice(b_, in_[1], 0, first * hidden_, n * hidden_);
    return {b_, b_.op("MatMul", {h, rows}, {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}})};
  }
  Term activated(size_t i, Term x) const { return activate(a_, i, x); }

  // Runs all time steps. Returns y and the last states. states: the initial states. step: computes the next states
  // from x (B, G * H) and the previous states; the first state is h.
  std::vector<ValueId> run(std::vector<Term> states,
                           const std::function<std::vector<Term>(Term, const std::vector<Term>&)>& step) const {
    std::vector<ValueId> y(static_cast<size_t>(time_));
    for (int64_t s = 0; s < time_; ++s) {
      const int64_t t = a_.i("reverse", 0) != 0 ? time_ - 1 - s : s;
      const Term x(b_, entry(b_, in_[0], t));
      std::vector<Term> next = step(x, states);
      Term out = next[0];
      if (lens_) {  // an ended sequence keeps its state, and its output is 0
        const Term active = Term(b_, lens_) > static_cast<double>(t);
        out = where(active, out, 0);
        for (size_t i = 0; i < next.size(); ++i) next[i] = where(active, next[i], states[i]);
      }
      states = std::move(next);
      y[static_cast<size_t>(t)] = out.shaped({1, batch_, hidden_});
    }
    std::vector<ValueId> all{time_ > 0 ? concat(b_, y, 0) : filled(b_, 0, b_.dtype(in_[0]), {0, batch_, hidden_})};
    for (const Term& s : states) all.push_back(s);
    return all;
  }

 private:
  Builder& b_;
  const std::vector<ValueId>& in_;
  const Attrs& a_;
  int64_t time_, batch_, hidden_;
  ValueId lens_;
};

}  // namespace

std::vector<ValueId> decompose_lstm(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Unrolled u(b, in, a, 4);
  const bool peepholes = u.has(5);
  const auto peep = [&](Term gate, int64_t which, Term cell) {
    return peepholes ? gate + u.gates(u.in(5), which) * cell : gate;
  };
  std::vector<ValueId> out = u.run({u.in(2), u.in(3)}, [&](Term x, const std::vector<Term>& before) {
    const Term c = before[1], g = x + u.recurrence(before[0], 0, 4);
    const Term i = u.activated(0, peep(u.gates(g, 0), 0, c)), f = u.activated(0, peep(u.gates(g, 2), 2, c));
    const Term cell = f * c + i * u.activated(1, u.gates(g, 3));
    const Term o = u.activated(0, peep(u.gates(g, 1), 1, cell));
    return std::vector<Term>{o * u.activated(2, cell), cell};
  });
  out.resize(5);  // gates and cells are omitted: only the fused gradient reads them
  return out;
}

std::vector<ValueId> decompose_gru(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Unrolled u(b, in, a, 3);
  const bool reset_after = u.has(4);
  std::vector<ValueId> out = u.run({u.in(2)}, [&](Term x, const std::vector<Term>& before) {
    const Term h = before[0], zr = u.activated(0, u.gates(x, 0, 2) + u.recurrence(h, 0, 2));
    const Term z = u.gates(zr, 0), r = u.gates(zr, 1), own = u.gates(x, 2);
    const Term n =
        u.activated(1, reset_after ? own + r * (u.in(4) + u.recurrence(h, 2, 1)) : own + u.recurrence(r * h, 2, 1));
    return std::vector<Term>{(1 - z) * n + z * h};
  });
  out.resize(4);  // gates and the reset product are omitted: only the fused gradient reads them
  return out;
}

std::vector<ValueId> decompose_rnn(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Unrolled u(b, in, a, 3);
  return u.run({u.in(2)}, [&](Term x, const std::vector<Term>& before) {
    return std::vector<Term>{u.activated(0, x + u.recurrence(before[0], 0, 1))};
  });
}

}  // namespace amp
