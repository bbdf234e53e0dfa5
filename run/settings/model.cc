// Settings: the model, its head and its loss.
#include "run/settings/rows.h"

namespace amp {

std::vector<Setting> model_settings() {
  return {
      setting("model", &RunSpec::model, "The ONNX file; the same as the first word without a flag.")
          .shown_as("FILE")
          .read_by(kRun | kExport | jobs(Job::build))
          .needed_by(kRun | kExport | jobs(Job::build))
          .also({"model_name_or_path", "onnx_path"})
          .same_content(),
      setting("task", &RunSpec::task,
              "What to train for: chooses loss, how labels are read, metrics. auto: by the loss and the label column.")
          .one_of({"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "retrieval",
                   "language", "seq2seq"})
          .same({{"token_classification", "token"},
                 {"ner", "token"},
                 {"qa", "span"},
                 {"question_answering", "span"},
                 {"multi_label_classification", "multilabel"},
                 {"single_label_classification", "classification"},
                 {"causal_lm", "language"},
                 {"translation", "seq2seq"},
                 {"summarization", "seq2seq"},
                 {"pos", "token"},
                 {"chunk", "token"},
                 {"stsb", "regression"},
                 {"cola", "classification"},
                 {"mnli", "classification"},
                 {"mrpc", "classification"},
                 {"qnli", "classification"},
                 {"qqp", "classification"},
                 {"rte", "classification"},
                 {"sst2", "classification"},
                 {"wnli", "classification"},
                 {"xnli", "classification"}})
          .read_by(kGraph | kData | jobs(Job::generate))
          .also({"task_name", OtherName("do_regression", "regression", "auto")}),
      setting("loss", &RunSpec::loss,
              "Loss: cross_entropy, bce_logits, mse, ... with parameters (huber,delta=2), several of them (repeat, or "
              "KIND,KIND), as JSON, or a .json file; see docs/losses.md. Default: the model's own, else cross_entropy.")
          .shown_as("KIND|JSON|FILE")
          .as_json()
          .read_by(kGraph | jobs(Job::evaluate, Job::predict))
          .also({OtherName("bce_loss", "bce_logits", "auto")}),
      setting("label_smoothing", &RunSpec::label_smoothing,
              "Label smoothing of the cross-entropies that do not give their own.")
          .at_least(0)
          .below(1)
          .read_by(kGraph | jobs(Job::evaluate))
          .also({"label_smoothing_factor", "smoothing"}),
      setting("output", &RunSpec::output,
              "Graph output that the loss takes, or A,B for a loss on two (default: logits, start_/end_logits for "
              "qa_span, else the first floating output).")
          .shown_as("NAME")
          .read_by(kGraph | jobs(Job::evaluate, Job::predict)),
      setting("teacher", &RunSpec::teacher,
              "A second ONNX file to distil from: adds the loss distill (docs/losses.md).")
          .shown_as("FILE")
          .read_by(kTrain)
          .same_content(),
      setting("teacher_weight", &RunSpec::teacher_weight, "Weight of the teacher; the other losses weigh one minus it.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain)
          .also({"distillation_weight"}),
      setting("temperature", &RunSpec::temperature,
              "Temperature of the teacher's and the model's logits; of those that --sample draws by.")
          .above(0)
          .read_by(jobs(Job::train, Job::generate)),
      setting("head_from", &RunSpec::head_from, "Tensor that a new head reads (default: chosen by rule and shown).")
          .shown_as("NAME")
          .read_by(kGraph | kData),
      setting(
          "pooling", &RunSpec::pooling,
          "How a new head pools hidden states. auto: as sentence-transformers' files beside the model say, else the "
          "mean of the tokens.")
          .one_of({"auto", "cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last"})
          .read_by(kGraph | kData),
      setting("head", &RunSpec::head,
              "A new head of this kind, whatever the model has; auto: one for --task when the model has none.")
          .one_of({"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "embedding",
                   "none"})
          .same({{"tokens", "token"}, {"token_classification", "token"}, {"question_answering", "span"}})
          .read_by(jobs(Job::train, Job::check, Job::plan)),
      setting("cut_at", &RunSpec::cut_at, "Drop everything behind this node or tensor, from the exported file too.")
          .shown_as("NODE")
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"cut"}),
      setting("num_labels", &RunSpec::num_labels,
              "Outputs of the head: a classifier of another size is replaced by a new one; 0: counted in the training "
              "data.")
          .at_least(0)
          .read_by(kGraph)
          .also({"num_classes", "class_num"}),
      setting("dropout", &RunSpec::dropout,
              "Dropout in a new head and where the architecture had it (listed; check shows it); 0: none.")
          .at_least(0)
          .below(1)
          .read_by(jobs(Job::train, Job::check, Job::plan))
          .also({"drop", "drop_rate"}),
      setting("freeze", &RunSpec::freeze,
              "Parameters that stay as they are (whole-name match; repeat the flag for more).")
          .shown_as("GLOB")
          .read_by(kGraph),
      setting("trainable", &RunSpec::trainable,
              "Parameters to train whatever the discovery or --freeze says (repeatable).")
          .shown_as("GLOB")
          .read_by(kGraph)
          .also({"unfreeze"}),
      setting("freeze_layers", &RunSpec::freeze_layers,
              "Freeze the embeddings and the first N encoder layers or stages; 0: the embeddings; -1: none.")
          .at_least(-1)
          .read_by(kGraph)
          .also({"freeze_n_layers"}),
      setting("lora", &RunSpec::lora,
              "Train low-rank adapters on the MatMul and Gemm weights that match (all without targets), the rest "
              "frozen; also dropout=P.")
          .shown_as("r=8,alpha=16,targets=GLOB")
          .read_by(kTrain),
      setting("tie_weights", &RunSpec::tie_weights,
              "auto: equal-valued matrices, transposed copies included, are one weight, as are rows that the exporter "
              "repeated for a fixed batch; tensors that it merged because they were all zeros or ones are one for each "
              "module. none: the latter only. file: one "
              "weight for each tensor of the file.")
          .one_of({"auto", "none", "file"})
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kGraph),
      setting("train_quantized", &RunSpec::train_quantized,
              "Integer weights behind DequantizeLinear train: float masters, quantised by the file's own scales in "
              "every forward pass, exported as integers.")
          .read_by(kGraph),
      setting("straight_through", &RunSpec::straight_through,
              "x + (f(x) - x), f rounding or choosing without a gradient, has the gradient of x; false: of what is "
              "written, 0.")
          .read_by(kGraph),
      setting("batchnorm", &RunSpec::batchnorm,
              "BatchNorm: running statistics as they are, or batch statistics, by which the running ones move.")
          .one_of({"freeze", "train"})
          .same({{"frozen", "freeze"}})
          .read_by(kGraph)
          .also({"bn"}),
      setting("sync_bn", &RunSpec::sync_bn,
              "Of several ranks, with --batchnorm train: batch statistics over the rows of all of them "
              "(torch.nn.SyncBatchNorm).")
          .read_by(kTrain)
          .also({"sync_batchnorm"}),
  };
}

}  // namespace amp
