// Settings of the model, its head and its loss. Each row is one setting: a member of a part of RunSpec, its help and
// the jobs that read it.
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
              "ONNX file or folder of the model (create: an architecture; train: also tabular, mlp). May be the first "
              "argument.")
          .shown_as("FILE")
          .read_by(kRun | kExport | jobs(Job::build, Job::convert))
          .in_short_help()
          .needed_by(kRun | kExport | jobs(Job::build, Job::convert))
          .also({"model_name_or_path", "onnx_path"})
          .same_content(),
      setting("task", &ObjectiveSpec::task,
              "Task, which determines the loss, the form of labels and the metrics. auto: chosen by the loss and the "
              "label column.")
          .one_of(task_choices())
          .same(task_synonyms())
          .read_by(kGraph | kData | jobs(Job::generate))
          .in_short_help()
          .also({"task_name", OtherName("do_regression", "regression", "auto")}),
      setting("loss", &ObjectiveSpec::loss,
              "Loss with parameters, such as cross_entropy or huber,delta=2; JSON; or a .json file (docs/losses.md). "
              "Several losses: KIND,KIND, or repeat the flag. Default: the loss of the task, else the model's own, "
              "else cross_entropy.")
          .shown_as("KIND|JSON|FILE")
          .as_json()
          .read_by(kGraph | jobs(Job::evaluate, Job::predict))
          .in_short_help()
          .also({OtherName("bce_loss", "bce_logits", "auto")}),
      setting("label_smoothing", &ObjectiveSpec::label_smoothing,
              "Label smoothing of all cross-entropy losses that do not set their own: the probability that is spread "
              "over all classes. 0: none.")
          .at_least(0)
          .below(1)
          .read_by(kGraph | jobs(Job::evaluate))
          .also({"label_smoothing_factor", "smoothing"}),
      setting("output", &ModelSpec::output,
              "Graph output that the loss reads, or A,B for a loss that reads two. Default: logits; for qa_span "
              "start_logits and end_logits; else the first floating-point output.")
          .shown_as("NAME")
          .read_by(kGraph | jobs(Job::evaluate, Job::predict)),
      setting("teacher", &ObjectiveSpec::teacher,
              "ONNX file of a teacher for distillation, which adds the loss distill (docs/losses.md). Default: none.")
          .shown_as("FILE")
          .read_by(kTrain)
          .same_content(),
      setting("reference", &ObjectiveSpec::reference,
              "Reference model of dpo and kto if no `teacher` is given. start: the model before training, with the "
              "adapter that "
              "`adapter` names; base: without this adapter.")
          .one_of({"start", "base"})
          .read_by(kTrain),
      setting("teacher_weight", &ObjectiveSpec::teacher_weight,
              "Weight of the teacher's loss; all other losses are multiplied by 1 minus this weight.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain)
          .also({"distillation_weight"}),
      setting("temperature", &ObjectiveSpec::temperature,
              "Temperature that divides logits. In training these are the logits of teacher and model in distillation, "
              "in generate those that `sample` draws tokens from.")
          .above(0)
          .read_by(jobs(Job::train, Job::generate)),
      setting("head_from", &ModelSpec::head_from, "Tensor that a new head reads. Default: chosen by rule and printed.")
          .shown_as("NAME")
          .read_by(kGraph | kData),
      setting("pooling", &ModelSpec::pooling,
              "How a new head pools the hidden states of a sequence. auto: as the files of sentence-transformers "
              "beside the model say, else mean.")
          .one_of({"auto", "cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last"})
          .read_by(kGraph | kData),
      setting("head", &ModelSpec::head,
              "Kind of head to add, even if the model has one. auto: add a head for the task if the model has none; "
              "none: do not add one.")
          .one_of({"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "embedding",
                   "none"})
          .same({{"tokens", "token"}, {"token_classification", "token"}, {"question_answering", "span"}})
          .read_by(jobs(Job::train, Job::check, Job::plan)),
      setting("cut_at", &ModelSpec::cut_at,
              "Node or tensor after which everything is removed from the graph, also in the exported file. Default: "
              "nothing is removed.")
          .shown_as("NODE")
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"cut"}),
      setting("num_labels", &ModelSpec::num_labels,
              "Number of outputs of the head; a classifier of another size is replaced by a new one. 0: counted in the "
              "training data.")
          .at_least(0)
          .read_by(kGraph)
          .in_short_help()
          .also({"num_classes", "class_num"}),
      setting("dropout", &ModelSpec::dropout,
              "Dropout rate in a new head, and in the places where the architecture had dropout (listed by check); 0: "
              "none.")
          .at_least(0)
          .below(1)
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"drop", "drop_rate"}),
      setting("freeze", &ModelSpec::freeze,
              "Parameters that are not trained; GLOB matches the whole name. Repeat the flag for more. Default: none.")
          .shown_as("GLOB")
          .read_by(kGraph)
          .in_short_help(),
      setting("trainable", &ModelSpec::trainable,
              "Parameters that are trained even if `freeze` or the program excludes them; GLOB matches the whole name. "
              "Repeat the flag for more. Default: none.")
          .shown_as("GLOB")
          .read_by(kGraph)
          .also({"unfreeze"}),
      setting("freeze_layers", &ModelSpec::freeze_layers,
              "Number of first encoder layers or stages that are frozen together with the embeddings. 0: only the "
              "embeddings; -1: none.")
          .at_least(-1)
          .read_by(kGraph)
          .also({"freeze_n_layers"}),
      setting(
          "lora", &ModelSpec::lora,
          "Train low-rank adapters on the linear maps that targets selects, by role (attention, mlp, all-linear, q, "
          "...) or GLOB (without it: on all products), and freeze all other parameters. Also dropout=P, rslora=true, "
          "dora=true, fused=true, lr_ratio=X, init=kaiming|gaussian|zero|pissa, rank_pattern=GLOB:R, "
          "alpha_pattern=GLOB:X. Default: no adapters.")
          .shown_as("r=8,alpha=16,targets=GLOB")
          .read_by(kTrain)
          .in_short_help(),
      setting("adapter", &ModelSpec::adapter,
              "Low-rank adapter to apply: an .onnx_adapter file, a PEFT folder, or a run's folder with one of them. "
              "Training continues from it; `lora` may then give dropout and lr_ratio only. none: no adapter. Default: "
              "none; "
              "for eval, predict and generate of the folder of a run that exported slots, its adapter.")
          .shown_as("PATH")
          .read_by(kTrain | jobs(Job::evaluate, Job::predict, Job::generate))
          .same_content(),
      setting("tie_weights", &ModelSpec::tie_weights,
              "Tensors of the file that share one weight. auto: matrices with equal values (also transposed), and rows "
              "that the exporter repeated for a fixed batch; tensors that the exporter merged because all their values "
              "were 0 or 1 become one weight per module. none: only these merged tensors are separated. file: one "
              "weight per tensor of the file.")
          .one_of({"auto", "none", "file"})
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kGraph),
      setting("train_quantized", &ModelSpec::train_quantized,
              "Train the integer weights of a quantized model (those before DequantizeLinear). Float master weights "
              "are quantized with the file's scales in every forward pass, and exported as integers.")
          .read_by(kGraph),
      setting("straight_through", &ModelSpec::straight_through,
              "Straight-through estimator: x + (f(x) - x), where f rounds or chooses, has the gradient of x. false: it "
              "has the gradient of f, which is 0.")
          .read_by(kGraph),
      setting("past", &ModelSpec::past,
              "Key/value caches among the inputs of a decoder (past_key_values). empty: they have 0 positions, because "
              "whole sequences are computed; the caches that the model returns are left out. data: the data feed them.")
          .one_of({"empty", "data"})
          .read_by(kRun | kExport),
      setting("batchnorm", &ModelSpec::batchnorm,
              "Statistics of BatchNorm in training. freeze: uses the running statistics; train: uses those of the "
              "batch and updates the running ones.")
          .one_of({"freeze", "train"})
          .same({{"frozen", "freeze"}})
          .read_by(kGraph)
          .also({"bn"}),
      setting("sync_bn", &DistributionSpec::sync_bn,
              "With several ranks and `batchnorm` train: compute batch statistics over the rows of all ranks, as "
              "torch.nn.SyncBatchNorm does.")
          .read_by(kTrain)
          .also({"sync_batchnorm"}),
  };
}

}  // namespace amp
