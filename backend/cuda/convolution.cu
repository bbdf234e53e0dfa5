// Validates convolutions by a library. The first run computes a convolution with the project's kernels and with the
// library, and compares the results. If they agree, the library is used from then on. Otherwise it is dropped with a
// warning. Kernels register the operators that may use a library convolution. Graphs with these operators reserve
// memory for the library's workspace.
#include <set>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convolution.h"
#include "base/error.h"
#include "base/message.h"

namespace amp::cuda {

static std::set<std::string, std::less<>>& convolution_users() {
  static std::set<std::string, std::less<>> users;  // filled by the constructors of RegisterConvolutionUser
  return users;
}
RegisterConvolutionUser::RegisterConvolutionUser(std::string_view op) { convolution_users().emplace(op); }

bool uses_convolution_library(const Graph& g) {
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    if (convolution_users().count(g.node(NodeId{i}).op->name)) return true;
  }
  return false;
}

std::string key_of(const Convolution& what) {
  const ConvShape& s = what.shape;
  std::string key = cat(what.kind == ConvolutionKind::forward  ? "forward "
                        : what.kind == ConvolutionKind::grad_x ? "grad_x "
                                                               : "grad_w ",
                        s.n, ' ', s.groups, 'x', s.c, '>', s.m);
  for (const WindowAxis& w : s.window)
    key += cat(' ', w.in, '>', w.out, ',', w.kernel, ',', w.stride, ',', w.dilation, ',', w.pad, ',', w.pad_end);
  return cat(key, ' ', name_of(what.type), what.bias ? cat(" +", name_of(*what.bias)) : std::string(),
             what.channels_last ? " channels last" : "");
}

bool WidenedGradient::run(const ConvolutionOperands& o) {
  ConvolutionOperands narrow = o;
  narrow.c = rounded_.data;
  if (!plan_->run(narrow)) return false;
  device_.convert(rounded_, Tensor{o.c, DType::f32, rounded_.dims})();
  return true;
}

// Returns whether the first of two compared fp16 results is so large that the second one may have overflowed. The
// comparison then has no meaning; the loss scaler skips a step with an overflow.
static bool overflows(const OutputDifference& d, DType t) { return t == DType::f16 && d.largest > 65000; }

bool GuardedConvolution::proved(const ConvolutionOperands& o) {
  OutputDifference found;
  bool ran = false;
  try {
    const DeviceMemory memory = device_.allocate(result_.bytes());
    ConvolutionOperands other = o;
    other.c = memory.get();
    ran = library_->run(other);
    if (ran)
      found = compare_outputs(device_, {o.c, result_.dtype, result_.dims}, {other.c, result_.dtype, result_.dims});
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return false;  // there is no memory for the comparison, so the built-in kernels run
  }
  if (ran && (!found.validates() || overflows(found, what_.type))) {  // the comparison is repeated in the next run
    device_.proved_nothing();
    return false;
  }
  if (ran && found.within(library_tolerance(what_.type))) return true;
  const char* const kind = what_.kind == ConvolutionKind::forward  ? ""
                           : what_.kind == ConvolutionKind::grad_x ? " (gradient of its input)"
                                                                   : " (gradient of its weight)";
  print_message(Level::warning, cat("W_LIBRARY: ", library_->name(),
                                    (ran ? cat(" is off by ", found.difference, " of ", found.largest)
                                         : std::string(" refuses to run")),
                                    " in a convolution of ", what_.shape.groups * what_.shape.c, " channels into ",
                                    what_.shape.groups * what_.shape.m, kind, ", ", name_of(what_.type),
                                    "; the built-in kernels are used for it"));
  device_.store_decision(library_->key(), false);
  library_.reset();
  return false;
}

void GuardedConvolution::run(const ConvolutionOperands& o, const Kernel& own) {
  if (!library_) return own();
  if (!trusted_) {
    const std::optional<bool> decision = device_.stored_decision(library_->key());
    if (decision && !*decision) library_.reset();
    if (!library_) return own();
    trusted_ = decision.value_or(false);
  }
  if (trusted_) {
    if (library_->run(o)) return;
    library_.reset();
    return own();
  }
  own();
  if (!library_->may_wait()) return;
  trusted_ = proved(o);
  if (!trusted_) return;
  device_.store_decision(library_->key(), true);
  library_->run(o);  // the library's result is used from the first run on, so that a resumed run has the same bits
}

}  // namespace amp::cuda
