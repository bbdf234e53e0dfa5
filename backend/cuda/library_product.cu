// Validates a library's products with an epilogue (cuBLASLt). The first run computes a product with the project's
// kernels and with the library, and compares the results. A library that agrees is then timed against the kernels. The
// faster of them is used from then on.

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/library_product.h"
#include "base/error.h"
#include "base/message.h"

namespace amp::cuda {

namespace {

const char* name_of(Epilogue e) {
  switch (e) {
    case Epilogue::sums_a:
    case Epilogue::sums_b:
      return "the sums of an operand";
    case Epilogue::gelu:
      return "GELU";
    case Epilogue::gelu_gradient:
      return "the gradient of GELU";
  }
  return "";
}

}  // namespace

void GuardedProduct::drop() {
  device_.store_decision(library_->key(), false);
  library_.reset();
}

GuardedProduct::Results GuardedProduct::like(const Results& r, std::vector<DeviceMemory>& memory) {
  const auto another = [&](const Tensor& t) {
    memory.push_back(device_.allocate(t.bytes()));
    return Tensor{memory.back().get(), t.dtype, t.dims};
  };
  return {another(r.c), reads_extra() ? r.extra : another(r.extra)};
}

void GuardedProduct::copy(const Results& to, const Results& from) {
  device_.copy(to.c.data, from.c.data, to.c.bytes());
  if (!reads_extra()) device_.copy(to.extra.data, from.extra.data, to.extra.bytes());
}

std::optional<bool> GuardedProduct::agrees(bool ran, const Results& own_results, const Results& other) {
  const Gemm& g = what_.gemm;
  OutputDifference of_c, of_extra{0, 1};
  if (ran) {
    of_c = compare_outputs(device_, own_results.c, other.c);
    if (!reads_extra()) of_extra = compare_outputs(device_, own_results.extra, other.extra);
    if (!of_c.validates() || !of_extra.validates()) return std::nullopt;
    if (of_c.within(library_tolerance(g.in)) && of_extra.within(library_tolerance(g.in))) return true;
  }
  print_message(Level::warning, cat("W_LIBRARY: ", library_->name(),
                                    (ran ? cat(" is off by ", of_c.difference, " of ", of_c.largest, " and by ",
                                               of_extra.difference, " of ", of_extra.largest)
                                         : std::string(" refuses to run")),
                                    " in a product ", g.m, "x", g.n, "x", g.k, " with ", name_of(what_.epilogue), ", ",
                                    amp::name_of(g.in), "; the built-in kernels are used for it"));
  return false;
}

void GuardedProduct::prove(const void* a, const void* b, const Results& results, const Kernel& own) {
  std::vector<DeviceMemory> memory;
  Results other, kept;
  try {
    other = like(results, memory);
    if (!library_->known_faster()) kept = like(results, memory);
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return own();  // there is no memory for the comparison, so the built-in kernels run
  }
  // The library adds its product to the same initial values.
  device_.copy(other.c.data, results.c.data, other.c.bytes());
  own();
  const bool ran = library_->run(a, b, other.c.data, other.extra.data);
  const std::optional<bool> right = agrees(ran, results, other);
  if (!right) return device_.proved_nothing();  // the next run compares again
  if (!*right) return drop();
  if (kept.c.data) copy(kept, results);  // timing overwrites the results, and adds to them repeatedly
  const Kernel theirs = [&] { library_->run(a, b, results.c.data, results.extra.data); };
  trusted_ = is_faster(*library_, theirs, own);
  // Uses the library's result in this run already. After a resume this is the first run, and its bits must equal those
  // of the uninterrupted run, which uses the library.
  if (trusted_)
    copy(results, other);
  else if (kept.c.data)
    copy(results, kept);
  if (!trusted_) return drop();
  device_.store_decision(library_->key(), true);
}

void GuardedProduct::run(const void* a, const void* b, void* c, void* extra, const Kernel& own) {
  if (!library_) return own();
  if (!trusted_) {
    const std::optional<bool> decision = device_.stored_decision(library_->key());
    if (decision && !*decision) library_.reset();
    if (!library_) return own();
    trusted_ = decision.value_or(false);
  }
  if (trusted_) {
    if (library_->run(a, b, c, extra)) return;
    library_.reset();
    return own();
  }
  if (!library_->may_wait()) return own();
  const Gemm& g = what_.gemm;
  const int64_t extras = what_.epilogue == Epilogue::sums_a   ? g.m
                         : what_.epilogue == Epilogue::sums_b ? g.n
                                                              : g.m * g.n;
  const DType extra_type = what_.epilogue == Epilogue::gelu ? g.out : DType::f32;
  prove(a, b, {Tensor{c, g.out, {g.m * g.n}}, Tensor{extra, extra_type, {extras}}}, own);
}

}  // namespace amp::cuda
