// The emulated device: memory is the host's, kernels run in the emulator (emulator.cc), products are plain loops in
// fp32. A recording stores the work and runs it at every replay. Memory can be limited, to test errors.
#include "tests/emulator/emulated_device.h"

#include <cstring>

#include "base/error.h"

namespace amp::cuda {

namespace {

double element(DType t, const void* data, int64_t i) {
  double v;
  amp::convert(t, static_cast<const char*>(data) + i * size_of(t), DType::f64, &v, 1);
  return v;
}

class Emulated final : public EmulatedDevice {
 public:
  std::string description() const override { return "emulated CUDA device"; }
  std::vector<Event>& events() override { return events_; }
  void keep_events(bool on) override { keep_ = on; }

  // Allocates host memory, which is counted while it is in use.
  DeviceMemory allocate(int64_t bytes) override {
    take(bytes);
    const std::shared_ptr<HostTensor> t(new HostTensor(HostTensor::zeros(DType::u8, {std::max<int64_t>(bytes, 1)})),
                                        [use = in_use_, bytes](HostTensor* p) {
                                          *use -= bytes;
                                          delete p;
                                        });
    return DeviceMemory(t, t->mutable_data());
  }
  DeviceMemory allocate_shared(int64_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Arena> make_arena() override { return std::make_unique<CountedArena>(*this); }
  int64_t memory_in_use() const override { return *in_use_; }
  void synchronize() override {}

  void upload(void* to, const void* host, int64_t bytes) override { move(Event::upload, to, host, bytes); }
  void download(void* host, const void* from, int64_t bytes) override {
    check(!recording_, "a download while launches are recorded");
    move(Event::download, host, from, bytes);
    if (raised()) check_index_flag(*static_cast<const int64_t*>(raised()));
  }
  void copy(void* to, const void* from, int64_t bytes) override { move(Event::copy, to, from, bytes); }
  void fill(void* to, uint8_t byte, int64_t bytes) override {
    if (keep_) events_.push_back({Event::fill, {}, 0, 0, bytes});
    if (bytes > 0) std::memset(to, byte, static_cast<size_t>(bytes));
  }

  // Recording does not run the work. Every replay runs it.
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    struct Again : Recording {
      Emulated* device;
      std::function<void()> work;
      void replay() override {
        if (device->keep_) device->events_.push_back({Event::replay, {}, 0, 0, 0});
        work();
      }
    };
    if (keep_) events_.push_back({Event::record, {}, 0, 0, 0});
    auto r = std::make_unique<Again>();
    r->device = this;
    r->work = work;
    return r;
  }

  void* stream() const override { return nullptr; }
  int multiprocessors() const override { return 4; }
  void launched(const char* kernel, int64_t blocks, int threads) override {
    if (keep_) events_.push_back({Event::launch, kernel, blocks, threads, 0});
  }

  std::function<void(const void*, const void*, void*)> gemm(const Gemm& g) override {
    if (g.bias && refuses_bias) return nullptr;
    return [this, g](const void* a, const void* b, void* c) {
      if (keep_) events_.push_back({Event::gemm, {}, g.m, static_cast<int>(g.n), 0});
      multiply(g, a, b, c);
    };
  }

 private:
  class CountedArena final : public Arena {
   public:
    explicit CountedArena(Emulated& device) : device_(device), use_(device.in_use_) { base_ = inner_.base(); }
    ~CountedArena() override { *use_ -= used(); }

   private:
    void grow(int64_t bytes) override {
      device_.take(bytes - used());
      inner_.require(bytes);
      base_ = inner_.base();  // the base may change when the arena grows
    }
    Emulated& device_;
    std::shared_ptr<int64_t> use_;
    HostArena inner_;
  };
  void take(int64_t bytes) {
    if (memory_limit > 0 && *in_use_ + bytes > memory_limit)
      fail(Exit::memory, "E_OOM", cat("the emulated device has no memory for ", bytes, " more bytes"));
    *in_use_ += bytes;
  }

  // Converts the rows of a stored matrix to float.
  static std::vector<float> matrix(DType t, const void* data, int64_t at, int64_t rows, int64_t columns, int64_t ld) {
    std::vector<float> out(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
      amp::convert(t, static_cast<const char*>(data) + (at + r * ld) * size_of(t), DType::f32, out.data() + r * columns,
                   columns);
    }
    return out;
  }
  static void multiply(const Gemm& g, const void* a, const void* b, void* c) {
    const int64_t rows_a = g.trans_a ? g.k : g.m, columns_a = g.trans_a ? g.m : g.k, rows_b = g.trans_b ? g.n : g.k,
                  columns_b = g.trans_b ? g.k : g.n;
    const int64_t ldc = g.ldc ? g.ldc : g.n;
    for (int64_t s = 0; s < g.batch; ++s) {
      const std::vector<float> x = matrix(g.in, a, s * g.stride_a, rows_a, columns_a, g.lda ? g.lda : columns_a);
      const std::vector<float> y = matrix(g.in, b, s * g.stride_b, rows_b, columns_b, g.ldb ? g.ldb : columns_b);
      for (int64_t i = 0; i < g.m; ++i) {
        for (int64_t j = 0; j < g.n; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < g.k; ++k) {
            sum += x[static_cast<size_t>(g.trans_a ? k * g.m + i : i * g.k + k)] *
                   y[static_cast<size_t>(g.trans_b ? j * g.k + k : k * g.n + j)];
          }
          double v = g.alpha * static_cast<double>(sum);
          const int64_t at = s * g.stride_c + i * ldc + j;
          if (g.beta != 0) v += element(g.out, c, at);
          if (g.bias) v += element(g.out, g.bias, j);
          amp::convert(DType::f64, &v, g.out, static_cast<char*>(c) + at * size_of(g.out), 1);
        }
      }
    }
  }
  void move(Event::Kind kind, void* to, const void* from, int64_t bytes) {
    if (keep_) events_.push_back({kind, {}, 0, 0, bytes});
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  std::shared_ptr<int64_t> in_use_ = std::make_shared<int64_t>(0);
  bool keep_ = false, recording_ = false;
  std::vector<Event> events_;
};

}  // namespace

std::unique_ptr<EmulatedDevice> make_emulated_device() { return std::make_unique<Emulated>(); }

}  // namespace amp::cuda
