// C++ layer on onnx_amp.h (C++17): a session that closes itself, exceptions instead of status codes, containers instead
// of pointers. This header needs no other code and uses only the C interface, so it works with any version of the
// library that has this ABI version.
//
//   onnx_amp::Session session(R"({"model": "lenet.onnx", "loss": "cross_entropy", "max_steps": 100})");
//   session.train_step({{onnx_amp::tensor("input", {32, 1, 28, 28}, pixels), onnx_amp::tensor("label", {32}, labels)}});
//   session.export_model("trained.onnx");
#ifndef ONNX_AMP_HPP
#define ONNX_AMP_HPP

#include <onnx_amp/onnx_amp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace onnx_amp {

// A failed call. what() returns the fact; the other members are those of onnx_amp_error.
class Error : public std::runtime_error {
 public:
  explicit Error(const onnx_amp_error& e)
      : std::runtime_error(e.fact), status_(e.status), id_(e.id), hint_(e.hint), places_(e.places, e.places + e.place_count) {}
  onnx_amp_status status() const { return status_; }
  const std::string& id() const { return id_; }
  const std::string& hint() const { return hint_; }
  const std::vector<std::string>& places() const { return places_; }

 private:
  onnx_amp_status status_;
  std::string id_, hint_;
  std::vector<std::string> places_;
};

// Callbacks of a session or a job; any may be empty. They must not throw.
struct Options {
  std::int64_t samples_per_epoch = 0;
  std::function<void(int level, const std::string& text)> log;
  std::function<void(const onnx_amp_progress&)> progress;
  std::function<bool()> stop;                      // returns true to stop a job after the current step
  std::function<void(const std::string&)> result;  // receives the result of a job as a JSON text
};

// A tensor in memory that the caller owns.
struct Tensor {
  std::string name;
  onnx_amp_dtype dtype;
  std::vector<std::int64_t> dims;
  const void* data;
};
using Batch = std::vector<Tensor>;

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr onnx_amp_dtype value = ONNX_AMP_FLOAT32;
};
template <>
struct DTypeOf<double> {
  static constexpr onnx_amp_dtype value = ONNX_AMP_FLOAT64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr onnx_amp_dtype value = ONNX_AMP_INT32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr onnx_amp_dtype value = ONNX_AMP_INT64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr onnx_amp_dtype value = ONNX_AMP_UINT8;
};

template <class T>
Tensor tensor(std::string name, std::vector<std::int64_t> dims, const T* data) {
  return {std::move(name), DTypeOf<T>::value, std::move(dims), data};
}

struct Parameter {
  std::string name;
  std::vector<std::int64_t> dims;
  bool trained, statistic;
};

namespace detail {

inline void check(onnx_amp_status status, const onnx_amp_session* session) {
  if (status != ONNX_AMP_OK) throw Error(*onnx_amp_last_error(session));
}

// Converts options to those of the C interface. `options` must outlive the result.
inline onnx_amp_options c_options(Options& options) {
  onnx_amp_options c = {};
  c.size = sizeof c;
  c.samples_per_epoch = options.samples_per_epoch;
  c.user = &options;
  if (options.log)
    c.log = [](void* user, int32_t level, const char* text) { static_cast<Options*>(user)->log(level, text); };
  if (options.progress)
    c.progress = [](void* user, const onnx_amp_progress* p) { static_cast<Options*>(user)->progress(*p); };
  if (options.stop) c.stop = [](void* user) -> int32_t { return static_cast<Options*>(user)->stop() ? 1 : 0; };
  if (options.result) c.result = [](void* user, const char* json) { static_cast<Options*>(user)->result(json); };
  return c;
}

// Batches in the form of the C interface. They point into the given batches, which must outlive this object.
class Batches {
 public:
  explicit Batches(const std::vector<Batch>& batches) : Batches(batches.data(), batches.size()) {}
  Batches(const Batch* batches, std::size_t count) {
    for (const Batch* b = batches; b != batches + count; ++b) {
      std::vector<onnx_amp_tensor>& to = tensors_.emplace_back();
      for (const Tensor& t : *b)
        to.push_back({t.name.c_str(), t.dtype, static_cast<int32_t>(t.dims.size()), t.dims.data(), t.data});
    }
    for (const auto& t : tensors_) batches_.push_back({t.data(), t.size()});
  }
  const onnx_amp_batch* data() const { return batches_.data(); }
  std::size_t size() const { return batches_.size(); }

 private:
  std::vector<std::vector<onnx_amp_tensor>> tensors_;
  std::vector<onnx_amp_batch> batches_;
};

}  // namespace detail

// A model in training. Its functions throw Error; onnx_amp.h describes what they do.
class Session {
 public:
  explicit Session(const std::string& spec, Options options = {}) : options_(std::make_unique<Options>(std::move(options))) {
    const onnx_amp_options c = detail::c_options(*options_);
    onnx_amp_session* session = nullptr;
    detail::check(onnx_amp_open(spec.c_str(), &c, &session), nullptr);
    session_.reset(session);
  }

  onnx_amp_session* get() const { return session_.get(); }

  void prepare(const Batch& batch) {
    const detail::Batches c(&batch, 1);
    check(onnx_amp_prepare(get(), c.data()));
  }
  onnx_amp_step train_step(const std::vector<Batch>& micro_batches) {
    const detail::Batches c(micro_batches);
    onnx_amp_step step = {};
    step.size = sizeof step;
    check(onnx_amp_train_step(get(), c.data(), c.size(), &step));
    return step;
  }
  onnx_amp_evaluation eval_step(const Batch& batch) {
    const detail::Batches c(&batch, 1);
    onnx_amp_evaluation e = {};
    e.size = sizeof e;
    check(onnx_amp_eval_step(get(), c.data(), &e));
    return e;
  }
  std::string eval_finish() {  // returns loss and metrics as JSON
    const char* metrics = "";
    check(onnx_amp_eval_finish(get(), nullptr, &metrics));
    return metrics;
  }
  double lr() const {
    double lr = 0;
    check(onnx_amp_get_lr(get(), &lr));
    return lr;
  }
  void set_lr(double lr) { check(onnx_amp_set_lr(get(), lr)); }
  float loss_scale() const {
    float scale = 0;
    check(onnx_amp_get_loss_scale(get(), &scale));
    return scale;
  }
  void set_loss_scale(float scale) { check(onnx_amp_set_loss_scale(get(), scale)); }
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> out;
    for (std::size_t i = 0; i < onnx_amp_parameter_count(get()); ++i) {
      onnx_amp_parameter p = {};
      p.size = sizeof p;
      check(onnx_amp_parameter_info(get(), i, &p));
      out.push_back({p.name, {p.dims, p.dims + p.rank}, p.trained != 0, p.statistic != 0});
    }
    return out;
  }
  std::vector<float> parameter(const Parameter& p) const {
    std::size_t n = 1;
    for (const std::int64_t d : p.dims) n *= static_cast<std::size_t>(d);
    std::vector<float> values(n);
    check(onnx_amp_get_parameter(get(), p.name.c_str(), values.data(), n));
    return values;
  }
  void set_parameter(const std::string& name, const std::vector<float>& values) {
    check(onnx_amp_set_parameter(get(), name.c_str(), values.data(), values.size()));
  }
  std::string save_state(const std::string& folder) {
    const char* path = "";
    check(onnx_amp_save_state(get(), folder.c_str(), &path));
    return path;
  }
  void load_state(const std::string& path) { check(onnx_amp_load_state(get(), path.c_str())); }
  void export_model(const std::string& path) { check(onnx_amp_export(get(), path.c_str())); }

 private:
  struct Close {
    void operator()(onnx_amp_session* s) const { onnx_amp_close(s); }
  };
  void check(onnx_amp_status status) const { detail::check(status, get()); }

  std::unique_ptr<Options> options_;  // on the heap, because the library keeps its address
  std::unique_ptr<onnx_amp_session, Close> session_;
};

// Runs a whole training job from files. Throws Error; if the job was stopped, its status is ONNX_AMP_STOPPED.
inline void run(const std::string& spec, Options options = {}) {
  const onnx_amp_options c = detail::c_options(options);
  detail::check(onnx_amp_run(spec.c_str(), &c), nullptr);
}

}  // namespace onnx_amp

#endif
