#include <iostream>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/recurrence.h"
#include "base/error.h"

namespace amp::cuda {

namespace {
// Of the largest element: the library keeps states in the operands' type between steps, the project's kernels in fp32.
double tolerance(DType t) { return t == DType::f32 ? 4e-3 : t == DType::f16 ? 2e-2 : 1e-1; }

const char* name_of(RecurrentCell c) {
  return c == RecurrentCell::lstm ? "LSTM" : c == RecurrentCell::gru ? "GRU" : "RNN";
}
}  // namespace

void*& place_of(RecurrenceOperands& o, RecurrenceResult which) {
  switch (which) {
    case RecurrenceResult::y:
      return o.y;
    case RecurrenceResult::h:
      return o.h;
    case RecurrenceResult::c:
      return o.c;
    case RecurrenceResult::dxg:
      return o.dxg;
    case RecurrenceResult::dR:
      return o.dR;
    case RecurrenceResult::dh0:
      return o.dh0;
    case RecurrenceResult::dc0:
      return o.dc0;
    case RecurrenceResult::drb:
      return o.drb;
  }
  bug("a result of a recurrent layer");
}

std::vector<int> library_gates(RecurrentCell cell) {
  if (cell == RecurrentCell::lstm) return {0, 2, 3, 1};
  if (cell == RecurrentCell::gru) return {1, 0, 2};
  return {0};
}

// The library's results for the same operands, in buffers of their own, beside those that are there. They take their
// place when they agree: a resumed run, whose first this may be, has the same bits. (Running again instead is no way: a
// library may read its notes of the forward run only once.)
bool GuardedRecurrence::proved(Direction direction, const RecurrenceOperands& operands,
                               const std::vector<Result>& results, const char* which) {
  RecurrenceOperands o = operands;
  std::vector<DeviceMemory> buffers;
  std::vector<Tensor> theirs;
  try {
    for (const Result& r : results) {
      buffers.push_back(device_.allocate(r.own.numel() * size_of(what_.type)));
      place_of(o, r.which) = buffers.back().get();
      theirs.push_back({buffers.back().get(), what_.type, r.own.dims});
    }
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return false;  // no room to compare today: the project's kernels go on
  }
  std::string fault;
  if (!(library_.get()->*direction)(o)) fault = "refuses to run";
  bool something = false;
  for (size_t i = 0; i < results.size() && fault.empty(); ++i) {
    const OutputDifference a = compare_outputs(device_, results[i].own, theirs[i]);
    something |= a.validates();
    const bool both_zero = a.largest == 0 && a.difference == 0, not_finite = a.largest - a.largest != 0;
    if (!both_zero && !not_finite && !a.within(tolerance(what_.type)))
      fault = cat("is off by ", a.difference, " of ", a.largest);
    if (not_finite) something = false;
    if (not_finite) break;  // an overflow proves nothing either way
  }
  if (fault.empty() && something) {
    RecurrenceOperands to = operands;
    for (size_t i = 0; i < results.size(); ++i)
      device_.copy(place_of(to, results[i].which), theirs[i].data, theirs[i].bytes());
    return true;
  }
  if (fault.empty()) {
    device_.proved_nothing();
    return false;
  }
  std::cerr << "warning: W_LIBRARY: " << library_->name() << ' ' << fault << " in a layer of " << what_.hidden << ' '
            << name_of(what_.cell) << " cells" << which << ", " << amp::name_of(what_.type)
            << "; the built-in kernels are used for it\n";
  library_.reset();
  return false;
}

bool GuardedRecurrence::run(Direction direction, bool& is_proved, bool possible, const RecurrenceOperands& o,
                            const std::vector<Result>& results, const Kernel& own, const char* which) {
  const bool alone = forward_proved_ && (backward_proved_ || !differentiated_);
  if (!library_ || !alone) own();
  if (!library_) return false;
  if (!alone) {
    if (!possible || !library_->may_wait()) return false;
    if (!is_proved) return is_proved = proved(direction, o, results, which);
  }
  if ((library_.get()->*direction)(o)) return true;
  const std::string told =
      cat(library_->name(), " refuses to run in a layer of ", what_.hidden, ' ', name_of(what_.cell), " cells", which);
  if (alone && &is_proved == &backward_proved_)  // the project's kernels have nothing to go back on
    fail(Exit::internal, "E_CUDA", told);
  std::cerr << "warning: W_LIBRARY: " << told << "; the built-in kernels are used for it\n";
  library_.reset();
  if (alone) own();
  return false;
}

}  // namespace amp::cuda
