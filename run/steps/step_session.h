// StepSession: training that the calling program drives. It opens a model with a RunSpec, gets batches as tensors in
// memory, and computes the steps of train() with the same bits.
//
//   StepSession session(spec, host);
//   session.prepare(batch);                        // compiles the step; the batch's shapes are an example
//   const StepResult r = session.train_step({batch});
//   session.export_model("model.onnx");
//
// Batches map the names of graph inputs and labels ("label", or the names that the losses read) to tensors. A call
// reads the tensors before it returns. One thread at a time may use a session. Several sessions may exist and run at
// the same time; limits of sizes (DeviceSpec) are those of the session that was opened last.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/steps/fed_run.h"
#include "trainer/loop/batch_evaluator.h"

namespace amp {

struct ParameterInfo {
  std::string name;  // the tensor's name in the model file
  Dims dims;
  bool trained = false;    // changed by the optimizer
  bool statistic = false;  // a running statistic, changed by training without a gradient
};

class StepSession {
 public:
  // Reads the model and checks all settings, as prepare() does, and writes nothing. samples_per_epoch: as for
  // prepare_fed().
  StepSession(const RunSpec& spec, const Host& host, int64_t samples_per_epoch = 0);
  StepSession(const StepSession&) = delete;
  StepSession& operator=(const StepSession&) = delete;
  ~StepSession();

  // inputs() returns the inputs of a batch, with -1 for open dims, and labels() the names of the labels.
  std::vector<InputSpec> inputs() const;
  const std::vector<std::string>& labels() const { return fed_.needs.labels; }

  // Returns the model's inputs for these texts, without labels: token ids, masks and types, as the program makes them
  // from a table with one text column, or two with `pairs`. The tokenizer is that of `tokenizer`, `vocab` or the
  // model's folder; `max_seq_len` and `pad_to_multiple` apply. Throws E_USAGE if there is no tokenizer or the numbers
  // of texts and pairs differ, E_DATA_INPUT (Exit::data) for an input that is not made of text, and the errors of the
  // tokenizer.
  Tensors encode(std::span<const std::string_view> texts, std::span<const std::string_view> pairs = {});

  // Compiles the training step and allocates weights, gradients and the optimizer's state. The batch is kept; a later
  // export compares outputs on it. Does nothing if it was called before. All functions below require it, except
  // train_step(), which calls it with its first micro-batch. They throw E_NOT_PREPARED (Exit::usage) without it.
  void prepare(const Tensors& batch);
  bool prepared() const { return trainer_ != nullptr; }

  // Computes one optimizer step from its micro-batches. Throws E_DIVERGED (Exit::numerical) as train() does.
  StepResult train_step(std::span<const Tensors> micro_batches);

  // Evaluates a batch with the current weights and returns its loss. Schedule-free optimizers have separate
  // weights for this. eval_finish() returns loss and metrics of all batches since its last call.
  struct Evaluated {
    double loss = 0;
    int64_t samples = 0;
  };
  Evaluated eval_step(const Tensors& batch);
  Metrics eval_finish();
  // Returns the outputs of the last eval_step() that the metrics read, by name; empty without metrics.
  const Tensors& outputs() const { return outputs_; }

  int64_t steps() const;  // attempted steps, those of a loaded state included
  int64_t applied_steps() const;
  double lr() const;  // learning rate of the next step
  // Scales the schedule so that the next step's rate is `lr`; later steps keep the factor. With `lr_scheduler` constant
  // and no warm-up the rate stays `lr`. Throws E_LR (Exit::usage) if the schedule's rate is 0 now and `lr` is not.
  void set_lr(double lr);
  float loss_scale() const;
  void set_loss_scale(float scale);  // throws the errors of StepEngine::set_loss_scale()

  std::vector<ParameterInfo> parameters() const;
  HostTensor parameter(const std::string& name) const;  // a copy, fp32; E_PARAMETER (Exit::usage) if there is none
  // Replaces a parameter; any floating type. Throws E_PARAMETER (Exit::usage) for another name or shape.
  void set_parameter(const std::string& name, const HostTensor& value);

  // Writes FOLDER/checkpoint-N and returns its path. All earlier checkpoints stay.
  std::string save(const std::string& folder) const;
  // Continues from a checkpoint folder, or from the newest checkpoint of a folder. It may be that of a run of train().
  // Throws Exit::checkpoint: the errors of load_checkpoint(), and E_CKPT_MISMATCH for another model or settings.
  void load(const std::string& path);

  // Writes the weights that `export_weights` names (last, ema) as a model file, with the metadata of train(). With
  // `verify_export` the file is run on the batch of prepare() and compared.
  void export_model(const std::string& path);

 private:
  void require_prepared() const;
  CheckedBatch checked(const Tensors& batch) const;
  const Chunk& chunk(const std::string& name) const;
  HostTensor exported_weights() const;  // all parameters as exported; empty: the current parameters

  FedRun fed_;
  std::unique_ptr<Tokenizer> tokenizer_;  // opened by the first encode()
  SessionOptions options_;
  StopSignals no_signals_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<BatchEvaluator> evaluator_;
  Tensors outputs_;
  int64_t per_epoch_ = 1;  // number of steps in an epoch
  int64_t evaluated_ = 0;  // samples since the last eval_finish()
};

}  // namespace amp
