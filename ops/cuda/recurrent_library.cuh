// What LSTM, GRU and RNN ask of a library of recurrent layers (backend/cuda/recurrence.h).
#pragma once

#include <optional>

#include "backend/cuda/recurrence.h"
#include "ops/cuda/recurrent.cuh"

namespace amp::cuda {

// What the library computes exactly: the functions that the cells were invented with, no peepholes, forwards, whole
// sequences. states: of what kind the states' functions are; the gates' are sigmoids.
inline bool plain_layer(const KernelArgs& a, size_t lens, size_t gate_functions, size_t functions,
                        Activation::Kind states = Activation::tanh) {
  for (size_t i = 0; i < functions; ++i) {
    if (read_activation(a, i).kind != (i < gate_functions ? Activation::sigmoid : states)) return false;
  }
  return a.attrs().i("reverse", 0) == 0 && !a.has(lens);
}

// The operands of a node in its weights' type, and the layer that the library has for it.
class LayerByLibrary {
 public:
  // cell: none, and nothing is done. y: the dims of the node's y. weights: which input they are.
  LayerByLibrary(const KernelArgs& a, Carver& c, std::optional<RecurrentCell> cell, const Dims& y, size_t weights)
      : a_(a) {
    if (!cell || a.in[weights].dtype == DType::f64) return;
    what_ = Recurrence{*cell, y[0], y[1], y[2], a.in[weights].dtype};
    for (const Tensor& t : a.in)
      in_.push_back(t.data && is_float(t.dtype) ? Staged::input(a, c, t, what_->type) : Staged{});
    for (const Tensor& t : a.out) out_.push_back(Staged::output(a, c, t, what_->type));
  }
  void* in(size_t i) const { return i < in_.size() ? in_[i].data : nullptr; }
  void* out(size_t i) const { return i < out_.size() ? out_[i].data : nullptr; }
  explicit operator bool() const { return what_.has_value(); }

  using Place = std::pair<RecurrenceResult, size_t>;  // where a result goes, and which output it is

  // The node's kernel, given the project's own.
  Kernel forward(const RecurrenceOperands& o, const std::vector<Place>& places, const Kernel& own) const {
    if (!what_) return own;
    CudaDevice& d = device_of(a_);
    auto library = d.recurrence(*what_);
    if (!library) return own;
    const auto guard = std::make_shared<GuardedRecurrence>(d, *what_, std::move(library));
    d.partners[a_.out[0].data] = guard;
    return guarded(guard, &GuardedRecurrence::forward, o, places, own);
  }
  // y: the input that is the forward node's y.
  Kernel backward(size_t y, const RecurrenceOperands& o, const std::vector<Place>& places, const Kernel& own) const {
    if (!what_) return own;
    const auto& partners = device_of(a_).partners;
    const auto found = partners.find(a_.in[y].data);
    const auto guard =
        found == partners.end() ? nullptr : std::static_pointer_cast<GuardedRecurrence>(found->second.lock());
    if (!guard || !guard->is(*what_)) return own;
    guard->wants_gradient();
    return guarded(guard, &GuardedRecurrence::backward, o, places, own);
  }

 private:
  using Run = bool (GuardedRecurrence::*)(const RecurrenceOperands&, const std::vector<GuardedRecurrence::Result>&,
                                          const Kernel&);
  Kernel guarded(const std::shared_ptr<GuardedRecurrence>& guard, Run run, const RecurrenceOperands& o,
                 const std::vector<Place>& places, const Kernel& own) const {
    std::vector<GuardedRecurrence::Result> results;
    for (const auto& [place, i] : places) results.push_back({place, a_.out[i]});
    std::vector<Staged> stored;
    for (const auto& [place, i] : places) stored.push_back(out_[i]);
    return [guard, run, o, results, own, in = in_, stored] {
      for (const Staged& s : in) s.move();
      if (!(guard.get()->*run)(o, results, own)) return;
      for (const Staged& s : stored) s.move();
    };
  }

  const KernelArgs& a_;
  std::optional<Recurrence> what_;
  std::vector<Staged> in_, out_;
};

}  // namespace amp::cuda
