// Flags: the model, its head and its loss; the data.
#include "tools/cli/flag_words.h"
#include "tools/cli/values.h"

namespace amp::cli {

std::vector<Flag> model_flags() {
  return {
      text("model", "FILE", "", "The ONNX file; the same as the first word without a flag.")
          .on(kRun | kExport)
          .needed(kRun | kExport)
          .also({"model_name_or_path", "onnx_path"}),
      choice("task",
             {"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "retrieval"},
             "auto",
             "What to train for: chooses loss, how labels are read, metrics. auto: by the loss and the label column.")
          .same({{"token_classification", "token"},
                 {"ner", "token"},
                 {"qa", "span"},
                 {"question_answering", "span"},
                 {"multi_label_classification", "multilabel"},
                 {"single_label_classification", "classification"},
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
          .on(kGraph | kData)
          .also({"task_name", Alias("do_regression", "regression", "auto")}),
      list("loss", "KIND|JSON|FILE",
           "Loss: cross_entropy, bce_logits, mse, ... with parameters (huber,delta=2), several of them (repeat, or "
           "KIND,KIND), as JSON, "
           "or a .json file; see docs/losses.md. Default: the model's own, else cross_entropy.")
          .as_json()
          .on(kGraph | only(Verb::eval))
          .also({Alias("bce_loss", "bce_logits", "auto")}),
      real("label_smoothing", "0", "Label smoothing of the cross-entropies that do not give their own.")
          .at_least(0)
          .below(1)
          .on(kGraph | only(Verb::eval))
          .also({"label_smoothing_factor", "smoothing"}),
      text("output", "NAME", "",
           "Graph output that the loss takes, or A,B for a loss on two (default: logits, start_/end_logits for "
           "qa_span, else the "
           "first floating output).")
          .on(kGraph | only(Verb::eval)),
      text("teacher", "FILE", "", "A second ONNX file to distil from: adds the loss distill (docs/losses.md).")
          .on(kTrain),
      real("teacher_weight", "0.5", "Weight of the teacher; the other losses weigh one minus it.")
          .at_least(0)
          .at_most(1)
          .on(kTrain)
          .also({"distillation_weight"}),
      real("temperature", "1", "Temperature of the teacher's and the model's logits.").above(0).on(kTrain),
      text("head_from", "NAME", "", "Tensor that a new head reads (default: chosen by rule and shown).")
          .on(kGraph | kData),
      choice("pooling", {"auto", "cls", "mean"}, "auto",
             "How a new head pools hidden states: first token or masked mean.")
          .on(kGraph | kData),
      choice(
          "head",
          {"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "embedding", "none"},
          "auto", "A new head of this kind, whatever the model has; auto: one for --task when the model has none.")
          .same({{"tokens", "token"}, {"token_classification", "token"}, {"question_answering", "span"}})
          .on(in(Verb::train, Verb::check, Verb::plan)),
      text("cut_at", "NODE", "", "Drop everything behind this node or tensor, from the exported file too.")
          .on(in(Verb::train, Verb::check, Verb::plan))
          .also({"cut"}),
      whole("num_labels", "0",
            "Outputs of the head: a classifier of another size is replaced by a new one; 0: counted in the training "
            "data.")
          .at_least(0)
          .on(kGraph)
          .also({"num_classes", "class_num"}),
      real("dropout", "0.1",
           "Dropout in a new head and where the architecture had it (listed; check shows it); 0: none.")
          .at_least(0)
          .below(1)
          .on(in(Verb::train, Verb::check, Verb::plan))
          .also({"drop", "drop_rate"}),
      list("freeze", "GLOB", "Parameters that stay as they are (whole-name match; repeat the flag for more).")
          .on(kGraph),
      list("trainable", "GLOB", "Parameters to train whatever the discovery or --freeze says (repeatable).")
          .on(kGraph)
          .also({"unfreeze"}),
      whole("freeze_layers", "-1",
            "Freeze the embeddings and the first N encoder layers or stages; 0: the embeddings; -1: none.")
          .at_least(-1)
          .on(kGraph)
          .also({"freeze_n_layers"}),
      text("lora", "r=8,alpha=16,targets=GLOB", "",
           "Train low-rank adapters on the MatMul and Gemm weights that match (all without targets), the rest frozen; "
           "also dropout=P.")
          .on(kTrain),
      choice("tie_weights", {"auto", "none"}, "auto",
             "auto: equal-valued matrices, transposed copies included, are one weight.")
          .same({{"true", "auto"}, {"false", "none"}})
          .on(kGraph),
      toggle(
          "train_quantized", "false",
          "Integer weights behind DequantizeLinear train: float masters, quantised by the file's own scales in every "
          "forward pass, exported as integers.")
          .on(kGraph),
      choice("batchnorm", {"freeze", "train"}, "freeze",
             "BatchNorm: running statistics as they are, or batch statistics, by which the running ones move.")
          .same({{"frozen", "freeze"}})
          .on(kGraph)
          .also({"bn"}),
  };
}

std::vector<Flag> data_flags() {
  return {
      text("train", "FILE", "", "Training data: .csv, .tsv, .jsonl, or tensors in .safetensors, .npz.")
          .on(kTrain)
          .needed(kTrain)
          .also({"train_file"}),
      text("val", "FILE", "", "Validation data in the same format.")
          .on(in(Verb::train, Verb::eval))
          .also({"validation_file", "val_file", "eval_file", "dev"}),
      text("inputs", "FILE", "", "Tensors named by graph input, and label where a loss is asked.")
          .on(in(Verb::eval, Verb::predict, Verb::grad))
          .needed(in(Verb::predict, Verb::grad))
          .also({"input"}),
      list("text_columns", "NAME",
           "Column of the text; two for sentence pairs (A,B or the flag twice): one sequence, or for losses on "
           "embeddings one "
           "each.")
          .by_commas()
          .on(kFeed)
          .also({"text_column_names", "text_column_name", "text_column"}),
      text("label_column", "NAME", "label", "Column of the label.").on(kFeed).also({"label_column_name"}),
      text("delimiter", "CHAR", "auto", "Field separator of text tables; auto: by file name.")
          .checked(normal_delimiter, "auto, tab, comma, semicolon, pipe, or one character")
          .on(kFeed),
      text(
          "tokenizer", "FILE|FOLDER", "",
          "tokenizer.json, vocab.json with merges.txt, spiece.model or vocab.txt, or their folder. Default: beside the "
          "model.")
          .on(kText)
          .also({"tokenizer_name", "tokenizer_file"}),
      text("vocab", "FILE", "", "WordPiece vocabulary, one token a line.").on(kText).also({"vocab_path", "vocab_file"}),
      toggle("lower_case", "true", "Lower-case and strip accents before tokenizing (uncased models).")
          .on(kText)
          .also({"do_lower_case"}),
      whole("max_seq_len", "128", "Longest sequence in tokens, special ones included; longer text is cut. 0: no limit.")
          .checked(normal_max_length, "0 (no limit), or 2 and more")
          .otherwise(Verb::tokenize, "0")
          .on(kText)
          .also({"max_seq_length", "max_length"}),
      whole("doc_stride", "32",
            "Tokens that the windows of a long passage have in common (questions; Hugging Face: 128 of 384).")
          .at_least(0)
          .on(kFeed),
      whole("max_answer_length", "30", "Longest answer, in tokens, that a span predicts (questions).")
          .at_least(1)
          .on(in(Verb::train, Verb::eval)),
      whole("pad_to_multiple", "8", "Sequence length of a batch is rounded up to a multiple of this.")
          .at_least(1)
          .on(kFeed)
          .also({"pad_to_multiple_of"}),
      toggle("group_by_length", "true", "Put rows of similar length in a batch (less padding).").on(kTrain),
      toggle("shuffle", "true", "New order every epoch, from --seed.").on(kTrain).also({"shuffle_train_dataset"}),
  };
}

}  // namespace amp::cli
