// Settings of the model, its head and its loss. Each row names a member of a RunSpec part, its help and the jobs that
// read it.
#include "run/spec/model.h"

#include "run/settings/rows/rows.h"
#include "run/spec/distribution.h"
#include "run/spec/objective.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

std::vector<std::string_view> task_choices() {
  std::vector<std::string_view> names = {"auto"};
  for (const TaskRule& r : task_rules()) names.emplace_back(r.name);
  return names;
}

std::vector<std::pair<std::string_view, std::string_view>> task_synonyms() {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const TaskRule& r : task_rules()) {
    for (const std::string_view synonym : r.synonyms) pairs.emplace_back(synonym, r.name);
  }
  return pairs;
}

}  // namespace

std::vector<Setting> model_settings() {
  return {
      setting("model", &ModelSpec::model,
              "ONNX file or folder; may also be given as the first argument without a flag.")
          .shown_as("FILE")
          .read_by(kRun | kExport | jobs(Job::build))
          .needed_by(kRun | kExport | jobs(Job::build))
          .also({"model_name_or_path", "onnx_path"})
          .same_content(),
      setting("task", &ObjectiveSpec::task,
              "What to train for; chooses the loss, the form of labels and the metrics. auto: by the loss and the "
              "label column.")
          .one_of(task_choices())
          .same(task_synonyms())
          .read_by(kGraph | kData | jobs(Job::generate))
          .also({"task_name", OtherName("do_regression", "regression", "auto")}),
      setting("loss", &ObjectiveSpec::loss,
              "Loss: cross_entropy, bce_logits, mse, ... with parameters (huber,delta=2); several (repeat, or "
              "KIND,KIND); JSON; or a .json file (docs/losses.md). Default: the model's own, else cross_entropy.")
          .shown_as("KIND|JSON|FILE")
          .as_json()
          .read_by(kGraph | jobs(Job::evaluate, Job::predict))
          .also({OtherName("bce_loss", "bce_logits", "auto")}),
      setting("label_smoothing", &ObjectiveSpec::label_smoothing,
              "Label smoothing of all cross-entropies without their own.")
          .at_least(0)
          .below(1)
          .read_by(kGraph | jobs(Job::evaluate))
          .also({"label_smoothing_factor", "smoothing"}),
      setting("output", &ModelSpec::output,
              "Graph output that the loss uses, or A,B for a loss on two (default: logits, start_/end_logits for "
              "qa_span, else the first floating output).")
          .shown_as("NAME")
          .read_by(kGraph | jobs(Job::evaluate, Job::predict)),
      setting("teacher", &ObjectiveSpec::teacher,
              "Second ONNX file for distillation: adds the loss distill (docs/losses.md).")
          .shown_as("FILE")
          .read_by(kTrain)
          .same_content(),
      setting("teacher_weight", &ObjectiveSpec::teacher_weight,
              "Weight of the teacher's loss; the other losses are multiplied by one minus it.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain)
          .also({"distillation_weight"}),
      setting("temperature", &ObjectiveSpec::temperature,
              "Temperature of the teacher's and the model's logits; with generate `sample`, of the sampled logits.")
          .above(0)
          .read_by(jobs(Job::train, Job::generate)),
      setting("head_from", &ModelSpec::head_from, "Tensor that a new head reads (default: chosen by rule and printed).")
          .shown_as("NAME")
          .read_by(kGraph | kData),
      setting("pooling", &ModelSpec::pooling,
              "How a new head pools hidden states. auto: as sentence-transformers' files beside the model say, else "
              "the mean over tokens.")
          .one_of({"auto", "cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last"})
          .read_by(kGraph | kData),
      setting("head", &ModelSpec::head,
              "Add a new head of this kind, whatever the model has. auto: if the model has none, one for the task.")
          .one_of({"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "embedding",
                   "none"})
          .same({{"tokens", "token"}, {"token_classification", "token"}, {"question_answering", "span"}})
          .read_by(jobs(Job::train, Job::check, Job::plan)),
      setting("cut_at", &ModelSpec::cut_at, "Remove everything after this node or tensor, also from the exported file.")
          .shown_as("NODE")
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"cut"}),
      setting("num_labels", &ModelSpec::num_labels,
              "Outputs of the head; a classifier of another size is replaced by a new one. 0: counted in the training "
              "data.")
          .at_least(0)
          .read_by(kGraph)
          .also({"num_classes", "class_num"}),
      setting("dropout", &ModelSpec::dropout,
              "Dropout rate of a new head, and where the architecture had dropout (check lists the places); 0: none.")
          .at_least(0)
          .below(1)
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"drop", "drop_rate"}),
      setting("freeze", &ModelSpec::freeze,
              "Parameters that do not train, by name (GLOB matches the whole name; repeatable).")
          .shown_as("GLOB")
          .read_by(kGraph),
      setting("trainable", &ModelSpec::trainable,
              "Parameters that train, whatever the program found or `freeze` says (repeatable).")
          .shown_as("GLOB")
          .read_by(kGraph)
          .also({"unfreeze"}),
      setting("freeze_layers", &ModelSpec::freeze_layers,
              "Freeze the embeddings and the first N encoder layers or stages; 0: only the embeddings; -1: none.")
          .at_least(-1)
          .read_by(kGraph)
          .also({"freeze_n_layers"}),
      setting("lora", &ModelSpec::lora,
              "Train low-rank adapters on matching MatMul and Gemm weights (without targets: on all) and freeze the "
              "rest; also dropout=P.")
          .shown_as("r=8,alpha=16,targets=GLOB")
          .read_by(kTrain),
      setting("tie_weights", &ModelSpec::tie_weights,
              "auto: matrices with equal values (also transposed) and rows that the exporter repeated for a fixed "
              "batch are one weight; tensors that it merged because all values were 0 or 1 are separate weights for "
              "each module. none: only the latter. file: one weight per tensor of the file.")
          .one_of({"auto", "none", "file"})
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kGraph),
      setting("train_quantized", &ModelSpec::train_quantized,
              "Train integer weights before DequantizeLinear: float master weights, quantized by the file's scales in "
              "every forward pass, exported as integers.")
          .read_by(kGraph),
      setting(
          "straight_through", &ModelSpec::straight_through,
          "Gradient of x + (f(x) - x) with f rounding or choosing: that of x. false: 0, as the graph literally says.")
          .read_by(kGraph),
      setting(
          "batchnorm", &ModelSpec::batchnorm,
          "BatchNorm: freeze uses the running statistics; train uses batch statistics and updates the running ones.")
          .one_of({"freeze", "train"})
          .same({{"frozen", "freeze"}})
          .read_by(kGraph)
          .also({"bn"}),
      setting("sync_bn", &DistributionSpec::sync_bn,
              "With several ranks and `batchnorm` train: batch statistics over the rows of all ranks "
              "(torch.nn.SyncBatchNorm).")
          .read_by(kTrain)
          .also({"sync_batchnorm"}),
  };
}

}  // namespace amp
