#include <algorithm>
#include <array>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/timed_choice.h"
#include "base/error.h"

namespace amp::cuda {

// (batch, rows, columns) -> (batch, columns, rows), by tiles of 32 x 32 in shared memory. (In an unnamed namespace nvcc
// would call `cooperative` unused.)
template <class T>
struct SwapLastAxes {
  static constexpr bool cooperative = true;
  const T* x;
  T* y;
  int64_t batch, rows, columns;
  DEV void operator()() const {
    T* const tile = shared_memory<T>();
    const int64_t down = (rows + 31) / 32, across = (columns + 31) / 32, tiles = batch * down * across;
    const int at = thread_index() % 32, first = thread_index() / 32, step = block_threads() / 32;
    for (int64_t t = block_index(); t < tiles; t += grid_blocks()) {
      const int64_t c0 = t % across * 32, r0 = t / across % down * 32, base = t / across / down * rows * columns;
      for (int k = first; k < 32; k += step) {
        if (r0 + k < rows && c0 + at < columns) tile[k * 33 + at] = x[base + (r0 + k) * columns + c0 + at];
      }
      sync_threads();
      for (int k = first; k < 32; k += step) {
        if (c0 + k < columns && r0 + at < rows) y[base + (c0 + k) * rows + r0 + at] = tile[at * 33 + k];
      }
      sync_threads();
    }
  }
};

namespace {

// An operand as (n, channels, inner).
struct Layout {
  int64_t n, channels, inner;
  int64_t elements() const { return n * channels * inner; }
  bool same() const { return channels == 1 || inner == 1; }  // channels first or last
};

// Of a, b and c.
std::array<Layout, 3> layouts(const Convolution& what) {
  const ConvShape& s = what.shape;
  const Layout x{s.n, s.groups * s.c, s.in_size()}, y{s.n, s.groups * s.m, s.out_size()},
      w{s.groups * s.m, s.c, s.taps()};
  switch (what.kind) {
    case ConvolutionKind::forward:
      return {x, w, y};
    case ConvolutionKind::grad_x:
      return {y, w, x};
    case ConvolutionKind::grad_w:
      return {x, y, w};
  }
  bug("a kind of convolution");
}

constexpr int64_t kAligned = 256;
int64_t padded(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

template <class T>
void swap(CudaDevice& d, const void* from, void* to, int64_t batch, int64_t rows, int64_t columns) {
  const int64_t tiles = batch * ((rows + 31) / 32) * ((columns + 31) / 32);
  launch(d, {std::min<int64_t>(tiles, int64_t{d.multiprocessors()} * 32), 256, int64_t{32 * 33 * sizeof(T)}},
         SwapLastAxes<T>{static_cast<const T*>(from), static_cast<T*>(to), batch, rows, columns});
}
void move(CudaDevice& d, DType type, const Layout& l, const void* from, void* to, bool last) {
  const int64_t rows = last ? l.channels : l.inner, columns = last ? l.inner : l.channels;
  if (size_of(type) == 2)
    swap<uint16_t>(d, from, to, l.n, rows, columns);
  else
    swap<uint32_t>(d, from, to, l.n, rows, columns);
}

}  // namespace

int64_t ChannelsLast::scratch_bytes(const Convolution& what) {
  int64_t bytes = 0;
  for (const Layout& l : layouts(what)) bytes += l.same() ? 0 : padded(l.elements() * size_of(what.type));
  return bytes;
}

bool ChannelsLast::run(const void* a, const void* b, void* c) {
  const std::array<Layout, 3> l = layouts(what_);
  char* next = static_cast<char*>(scratch_.get());
  const auto place = [&](size_t i) {
    char* const at = next;
    next += padded(l[i].elements() * size_of(what_.type));
    return at;
  };
  const void* operands[2] = {a, b};
  for (size_t i = 0; i < 2; ++i) {
    if (l[i].same()) continue;
    char* const to = place(i);
    move(device_, what_.type, l[i], operands[i], to, true);
    operands[i] = to;
  }
  if (l[2].same()) return plan_->run(operands[0], operands[1], c);
  char* const result = place(2);
  if (what_.accumulate) move(device_, what_.type, l[2], c, result, true);
  if (!plan_->run(operands[0], operands[1], result)) return false;
  move(device_, what_.type, l[2], result, c, false);
  return true;
}

std::string key_of(const Convolution& what) {
  const ConvShape& s = what.shape;
  std::string key = cat(what.kind == ConvolutionKind::forward  ? "forward "
                        : what.kind == ConvolutionKind::grad_x ? "grad_x "
                                                               : "grad_w ",
                        s.n, ' ', s.groups, 'x', s.c, '>', s.m);
  for (const WindowAxis& w : s.window)
    key += cat(' ', w.in, '>', w.out, ',', w.kernel, ',', w.stride, ',', w.dilation, ',', w.pad);
  return cat(key, ' ', name_of(what.type), what.accumulate ? " +" : "", what.channels_last ? " channels last" : "");
}

TimedChoice::TimedChoice(CudaDevice& d, const Convolution& what, int64_t elements, std::vector<Candidate> candidates,
                         AutotuneStore& store, Stopwatch stopwatch)
    : device_(d),
      what_(what),
      bytes_(elements * size_of(what.type)),
      candidates_(std::move(candidates)),
      store_(store),
      stopwatch_(std::move(stopwatch)) {
  check(!candidates_.empty(), "a choice of nothing");
  settled_ = candidates_.size() == 1;
}

void TimedChoice::choose(const void* a, const void* b) {
  settled_ = true;
  const std::string key = key_of(what_);
  if (const std::optional<std::string> known = store_.find(key)) {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].name != *known) continue;
      chosen_ = i;
      return;
    }
  }
  DeviceMemory result;
  try {
    result = device_.allocate(bytes_);
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return;
  }
  std::optional<double> best;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    bool ran = true;
    const auto once = [&] { ran = ran && candidates_[i].plan->run(a, b, result.get()); };
    once();  // warms up
    for (int repeat = 0; ran && repeat < 3; ++repeat) {
      const double ms = stopwatch_(once);
      if (!ran || (best && ms >= *best)) continue;
      best = ms;
      chosen_ = i;
    }
  }
  if (best) store_.keep(key, candidates_[chosen_].name);
}

std::string TimedChoice::key() const { return cat("convolution ", key_of(what_)); }

bool TimedChoice::run(const void* a, const void* b, void* c) {
  if (!settled_ && may_wait()) choose(a, b);
  return candidates_[chosen_].plan->run(a, b, c);
}

}  // namespace amp::cuda
