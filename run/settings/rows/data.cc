// Settings of the data: files, columns, labels, tokenizer, texts and batches. Each row names a member of a RunSpec
// part, its help and the jobs that read it. Help strings are user documentation.
#include "run/spec/data.h"

#include "run/settings/rows/rows.h"
#include "run/spec/device.h"
#include "run/spec/language.h"
#include "run/spec/text.h"

namespace amp {

std::vector<Setting> data_settings() {
  return {
      setting("train", &DataSpec::train,
              "Training data: .csv, .tsv, .jsonl, .txt, plain or .gz; several as A,B or 'part-*.csv'; a folder of "
              "images; tensors in .safetensors or .npz.")
          .shown_as("FILE|FOLDER")
          .names_files()
          .read_by(kTrain)
          .needed_by(kTrain)
          .also({"train_file"})
          .same_content(),
      setting("val", &DataSpec::val, "Validation data in the same format.")
          .shown_as("FILE|FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .also({"validation_file", "val_file", "eval_file", "dev"})
          .same_content(),
      setting("text_columns", &TextSpec::text_columns,
              "Column of the text; two for sentence pairs (A,B, or the flag twice): one sequence, or with losses on "
              "embeddings one each.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kFeed)
          .also({"text_column_names", "text_column_name", "text_column"}),
      setting("label_column", &DataSpec::label_column,
              "Column of the label; several (A,B,C) that hold 0 or 1: a row may have several labels, a column each.")
          .shown_as("NAME")
          .read_by(kFeed)
          .also({"label_column_name"}),
      setting("label_map", &DataSpec::label_map, "Read the label OLD as NEW.")
          .shown_as("OLD=NEW")
          .read_by(jobs(Job::train, Job::evaluate, Job::plan)),
      setting("labels", &DataSpec::labels,
              "Class names in the order of the model's outputs, or a file with one name per line. Default: those of "
              "the model or of a config.json beside it, else whole numbers as ids; for a new head the data's labels in "
              "natural order.")
          .shown_as("NAME,NAME|FILE")
          .by_commas()
          .read_by(kFeed)
          .also({"class_names", "class_map"}),
      setting("val_text_columns", &TextSpec::val_text_columns,
              "Text columns of `val` if their names differ from those of `train`.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kTrain)
          .may_change(),
      setting("val_label_column", &DataSpec::val_label_column,
              "Label column of `val` if its name differs from that of `train`.")
          .shown_as("NAME")
          .read_by(kTrain)
          .may_change(),
      setting("data_format", &DataSpec::data_format,
              "Format of text files; auto: by file name. lines: one text per line, column text.")
          .one_of({"auto", "csv", "tsv", "jsonl", "lines"})
          .read_by(kFeed),
      setting("delimiter", &DataSpec::delimiter, "Field separator of text tables; auto: by file name.")
          .shown_as("CHAR")
          .checked(normal_delimiter, "auto, tab, comma, semicolon, pipe, or one character")
          .read_by(kFeed),
      setting("decimal", &DataSpec::decimal,
              "Decimal mark of numbers in text tables: point (1,234.5) or comma (1.234,5). auto: comma if a column of "
              "features or a regression target has no other reading.")
          .one_of({"auto", "point", "comma"})
          .read_by(kFeed),
      setting("trim_labels", &DataSpec::trim_labels, "Remove spaces around labels of text tables.")
          .read_by(jobs(Job::train, Job::evaluate, Job::plan)),
      setting("tokenizer", &TextSpec::tokenizer,
              "tokenizer.json, vocab.json with merges.txt, spiece.model or vocab.txt, or their folder. Default: beside "
              "the model.")
          .shown_as("FILE|FOLDER")
          .read_by(kTokenizer)
          .also({"tokenizer_name", "tokenizer_file"})
          .same_content(),
      setting("vocab", &TextSpec::vocab, "WordPiece vocabulary with one token per line.")
          .shown_as("FILE")
          .read_by(kTokenizer)
          .also({"vocab_path", "vocab_file"})
          .same_content(),
      setting("chat_template", &LanguageSpec::chat_template,
              "Chat template: a Jinja file or a tokenizer_config.json. Default: beside the tokenizer.")
          .shown_as("FILE")
          .read_by(kFeed)
          .also({"chat_template_path"})
          .same_content(),
      setting(
          "train_on", &LanguageSpec::train_on,
          "Parts of conversations and of prompts with completions to train on: the answers, the last answer, or all.")
          .one_of({"answers", "last_answer", "all"})
          .read_by(kFeed),
      setting("packing", &LanguageSpec::packing,
              "How texts become sequences of a language model. none: one each, truncated; stride: longer texts "
              "continue in windows that share `doc_stride` tokens; wrapped: concatenated and split; bfd: whole texts "
              "combined that do not attend to each other.")
          .one_of({"none", "stride", "wrapped", "bfd"})
          .read_by(kFeed)
          .also({"packing_strategy"}),
      setting("append_eos", &LanguageSpec::append_eos,
              "Add an end-of-text token after each text of a language model; auto: after completions.")
          .one_of({"auto", "true", "false"})
          .read_by(kFeed),
      setting("source_prefix", &LanguageSpec::source_prefix,
              "Text before each source text of `task` seq2seq, such as T5's \"summarize: \".")
          .shown_as("TEXT")
          .read_by(kFeed | jobs(Job::generate)),
      setting("max_target_length", &LanguageSpec::max_target_length,
              "Longest target of `task` seq2seq in tokens; longer ones are truncated. 0: as `max_seq_len`.")
          .at_least(0)
          .read_by(kFeed),
      setting("decoder_start_token", &LanguageSpec::decoder_start_token,
              "First decoder token of `task` seq2seq, a token or its id. auto: decoder_start_token_id of the "
              "config.json beside the model or tokenizer, else the padding token.")
          .shown_as("auto|TOKEN|ID")
          .read_by(kFeed | jobs(Job::generate)),
      setting("mlm_probability", &LanguageSpec::mlm_probability,
              "Share of tokens that `loss` masked_lm predicts; 80 % of them are masked.")
          .above(0)
          .below(1)
          .read_by(kFeed),
      setting("whole_word_mask", &LanguageSpec::whole_word_mask, "Mask all tokens of a word or none (masked_lm).")
          .read_by(kFeed)
          .also({"wwm"}),
      setting("lower_case", &TextSpec::lower_case,
              "Lower-case and strip accents before tokenizing (uncased models). Default for vocab.txt: unless it has "
              "words with capital letters.")
          .read_by(kTokenizer)
          .also({"do_lower_case"}),
      setting("max_seq_len", &TextSpec::max_seq_len,
              "Longest sequence in tokens, special tokens included; longer text is truncated. 0: no limit.")
          .checked(normal_max_length, "0 (no limit), or 2 and more")
          .otherwise(Job::tokenize, int64_t{0})
          .read_by(kText)
          .also({"max_seq_length", "max_length", "max_source_length"}),
      setting("doc_stride", &TextSpec::doc_stride,
              "Tokens that windows of a long passage (questions) or of a long text (`packing` stride) share.")
          .at_least(0)
          .read_by(kFeed),
      setting("max_answer_length", &TextSpec::max_answer_length, "Longest predicted answer in tokens (questions).")
          .at_least(1)
          .read_by(kData)
          .may_change(),
      setting("version_2_with_negative", &TextSpec::version_2_with_negative,
              "Questions may have no answer, as in SQuAD 2.0: their target is [CLS].")
          .read_by(kFeed),
      setting("null_score_diff_threshold", &TextSpec::null_score_diff_threshold,
              "Predict no answer if its score exceeds the best answer's by more than this (`version_2_with_negative`).")
          .read_by(kData)
          .may_change(),
      setting("n_best_size", &TextSpec::n_best_size,
              "Number of answers to write for each question, with probabilities; 1: the best.")
          .at_least(1)
          .at_most(1000)
          .read_by(jobs(Job::predict)),
      setting("top_k", &TextSpec::top_k,
              "Number of tokens to write for each mask of a text (masked language models); generate: number of most "
              "likely tokens that `sample` chooses from.")
          .at_least(1)
          .at_most(1000000)
          .otherwise(Job::generate, int64_t{50})
          .read_by(jobs(Job::predict, Job::generate)),
      setting("pad_to_multiple", &TextSpec::pad_to_multiple,
              "Round the sequence length of a batch up to a multiple of this.")
          .at_least(1)
          .read_by(kFeed)
          .also({"pad_to_multiple_of"}),
      setting("group_by_length", &TextSpec::group_by_length,
              "Put rows of similar length into a batch, which reduces padding.")
          .read_by(kTrain),
      setting("val_split", &DataSpec::val_split,
              "Hold out this share of the training data for validation, the same share of each class.")
          .at_least(0)
          .below(1)
          .read_by(kTrain),
      setting("in_memory_max_size", &DeviceSpec::in_memory_max_size,
              "Bytes of data to keep in memory. Texts and tokens beyond go to a temporary file in $TMPDIR or /var/tmp, "
              "and larger files are mapped. 0: a quarter of the memory.")
          .at_least(0)
          .read_by(kFeed)
          .may_change(),
      setting("limit_train", &DataSpec::limit_train, "Train on N samples, chosen by `limit_order`; 0: all.")
          .at_least(0)
          .read_by(kTrain)
          .also({"max_train_samples"}),
      setting("limit_val", &DataSpec::limit_val, "Validate on N samples, chosen by `limit_order`; 0: all.")
          .at_least(0)
          .read_by(jobs(Job::train, Job::evaluate))
          .also({"max_eval_samples", "max_val_samples"})
          .may_change(),
      setting("limit_order", &DataSpec::limit_order,
              "Which samples `limit_train` and `limit_val` keep: a random sample by `seed` with the same share of each "
              "class, or the first ones.")
          .one_of({"sample", "first"})
          .read_by(jobs(Job::train, Job::evaluate)),
      setting("shuffle", &DataSpec::shuffle, "Use a new order in every epoch, from `seed`.")
          .read_by(kTrain)
          .also({"shuffle_train_dataset"}),
      setting("weighted_sampling", &DataSpec::weighted_sampling,
              "Draw rows with replacement so that all classes are equally frequent.")
          .read_by(kTrain),
  };
}

}  // namespace amp
