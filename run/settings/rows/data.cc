// Settings of the data: files, columns, labels, tokenizer, texts and batches. Each row is one setting: a member of a
// part of RunSpec, its help and the jobs that read it. Help strings are user documentation.
#include "run/spec/data.h"

#include "run/settings/rows/rows.h"
#include "run/spec/device.h"
#include "run/spec/language.h"
#include "run/spec/text.h"

namespace amp {

std::vector<Setting> data_settings() {
  return {
      setting("train", &DataSpec::train,
              "Training data: a table of texts or features (.csv, .tsv, .jsonl, .txt, plain or .gz; several as A,B or "
              "'part-*.csv'), a folder of images, or tensors in .safetensors or .npz. bench uses synthetic data "
              "without it.")
          .shown_as("FILE|FOLDER")
          .names_files()
          .read_by(kTrain | jobs(Job::build))
          .in_short_help()
          .needed_by(kTrain)
          .also({"train_file"})
          .same_content(),
      setting("val", &DataSpec::val,
              "Validation data: a table, a folder of images or tensors, in the same formats as `train`. Default: none.")
          .shown_as("FILE|FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .in_short_help()
          .also({"validation_file", "val_file", "eval_file", "dev"})
          .same_content(),
      setting("text_columns", &TextSpec::text_columns,
              "Column of the text, or columns A,B for pairs of texts; required for tables of texts. Several columns "
              "form one sequence, except for losses on embeddings, which read each column as a sequence.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kFeed)
          .in_short_help()
          .also({"text_column_names", "text_column_name", "text_column"}),
      setting("label_column", &DataSpec::label_column,
              "Column of the label, or several columns A,B,C that hold 0 or 1 for one label each (a row may have "
              "several labels).")
          .shown_as("NAME")
          .read_by(kTableJobs)
          .in_short_help()
          .also({"label_column_name"}),
      setting("label_map", &DataSpec::label_map,
              "Read the label OLD as NEW; repeat the flag for more labels. Default: labels are read as they are.")
          .shown_as("OLD=NEW")
          .read_by(jobs(Job::train, Job::evaluate, Job::plan, Job::build)),
      setting("labels", &DataSpec::labels,
              "Class names in the order of the model's outputs, or a file with one name per line. Default: the names "
              "in the model or in a config.json beside it, else whole numbers as ids; for a new head, the labels of "
              "the data in natural order.")
          .shown_as("NAME,NAME|FILE")
          .by_commas()
          .read_by(kTableJobs)
          .in_short_help()
          .also({"class_names", "class_map"}),
      setting("val_text_columns", &TextSpec::val_text_columns,
              "Text columns of `val`, if their names differ from those of `train`. Default: `text_columns`.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kTrain)
          .may_change(),
      setting("val_label_column", &DataSpec::val_label_column,
              "Label column of `val`, if its name differs from that of `train`. Default: `label_column`.")
          .shown_as("NAME")
          .read_by(kTrain)
          .may_change(),
      setting(
          "data_format", &DataSpec::data_format,
          "Format of text files. auto: chosen by the file's name; lines: one text per line, in a column named text.")
          .one_of({"auto", "csv", "tsv", "jsonl", "lines"})
          .read_by(kTableJobs),
      setting("delimiter", &DataSpec::delimiter,
              "Character between the fields of text tables; auto: chosen by the file's name.")
          .shown_as("CHAR")
          .checked(normal_delimiter, "auto, tab, comma, semicolon, pipe, or one character")
          .read_by(kTableJobs),
      setting("decimal", &DataSpec::decimal,
              "Decimal mark of numbers in text tables: point (1,234.5) or comma (1.234,5). auto: decided by the "
              "columns of features and the regression target; ambiguous numbers are an error.")
          .one_of({"auto", "point", "comma"})
          .read_by(kTableJobs),
      setting("trim_labels", &DataSpec::trim_labels, "Remove spaces around labels of text tables.")
          .read_by(jobs(Job::train, Job::evaluate, Job::plan, Job::build)),
      setting("tokenizer", &TextSpec::tokenizer,
              "Tokenizer file (tokenizer.json, vocab.json with merges.txt beside it, spiece.model or vocab.txt), or "
              "its folder. Default: the tokenizer beside the model.")
          .shown_as("FILE|FOLDER")
          .read_by(kTokenizer)
          .in_short_help()
          .also({"tokenizer_name", "tokenizer_file"})
          .same_content(),
      setting("vocab", &TextSpec::vocab,
              "WordPiece vocabulary with one token per line; used if `tokenizer` is not given. Default: none.")
          .shown_as("FILE")
          .read_by(kTokenizer)
          .also({"vocab_path", "vocab_file"})
          .same_content(),
      setting("chat_template", &LanguageSpec::chat_template,
              "Chat template of conversations: a Jinja file or a tokenizer_config.json. Default: the template beside "
              "the tokenizer.")
          .shown_as("FILE")
          .read_by(kFeed)
          .also({"chat_template_path"})
          .same_content(),
      setting("train_on", &LanguageSpec::train_on,
              "Parts of conversations, and of prompts with completions, that count in the loss: the answers, the last "
              "answer, or all.")
          .one_of({"answers", "last_answer", "all"})
          .read_by(kFeed),
      setting("packing", &LanguageSpec::packing,
              "How texts become sequences of a language model. none: one sequence per text, truncated. stride: a "
              "longer text continues in windows that share `doc_stride` tokens. wrapped: texts are concatenated and "
              "split. bfd: whole texts are combined, and do not attend to each other.")
          .one_of({"none", "stride", "wrapped", "bfd"})
          .read_by(kFeed)
          .also({"packing_strategy"}),
      setting("append_eos", &LanguageSpec::append_eos,
              "Add an end-of-text token after each text of a language model; auto: only after completions.")
          .one_of({"auto", "true", "false"})
          .read_by(kFeed),
      setting(
          "source_prefix", &LanguageSpec::source_prefix,
          "Text that is put before each source text of `task` seq2seq, such as T5's \"summarize: \". Default: none.")
          .shown_as("TEXT")
          .read_by(kFeed | jobs(Job::generate)),
      setting(
          "max_target_length", &LanguageSpec::max_target_length,
          "Largest length of a target of `task` seq2seq, in tokens; longer targets are truncated. 0: `max_seq_len`.")
          .at_least(0)
          .read_by(kFeed),
      setting("decoder_start_token", &LanguageSpec::decoder_start_token,
              "First decoder token of `task` seq2seq, as a token or its id. auto: decoder_start_token_id of the "
              "config.json beside the model or tokenizer, else the padding token.")
          .shown_as("auto|TOKEN|ID")
          .read_by(kFeed | jobs(Job::generate)),
      setting("mlm_probability", &LanguageSpec::mlm_probability,
              "Fraction of the tokens that `loss` masked_lm predicts; 80 % of these are replaced by the mask token.")
          .above(0)
          .below(1)
          .read_by(kFeed),
      setting("whole_word_mask", &LanguageSpec::whole_word_mask,
              "For `loss` masked_lm: choose all tokens of a word or none.")
          .read_by(kFeed)
          .also({"wwm"}),
      setting("lower_case", &TextSpec::lower_case,
              "Lower-case texts and strip their accents before tokenizing with a vocab.txt. The default is false if "
              "the vocabulary has words with capital letters.")
          .read_by(kTokenizer)
          .also({"do_lower_case"}),
      setting(
          "max_seq_len", &TextSpec::max_seq_len,
          "Largest length of a sequence in tokens, including special tokens; longer texts are truncated. 0: no limit.")
          .checked(normal_max_length, "0 (no limit), or 2 and more")
          .otherwise(Job::tokenize, int64_t{0})
          .read_by(kText)
          .also({"max_seq_length", "max_length", "max_source_length"}),
      setting("doc_stride", &TextSpec::doc_stride,
              "Number of tokens that consecutive windows of a long passage (questions) or of a long text (`packing` "
              "stride) share.")
          .at_least(0)
          .read_by(kFeed),
      setting("max_answer_length", &TextSpec::max_answer_length,
              "Largest length of a predicted answer to a question, in tokens.")
          .at_least(1)
          .read_by(kData)
          .may_change(),
      setting("version_2_with_negative", &TextSpec::version_2_with_negative,
              "Accept questions without an answer, as in SQuAD 2.0; their target is the token [CLS].")
          .read_by(kFeed),
      setting("null_score_diff_threshold", &TextSpec::null_score_diff_threshold,
              "Predict no answer if its score exceeds that of the best answer by more than this "
              "(`version_2_with_negative`).")
          .read_by(kData)
          .may_change(),
      setting("n_best_size", &TextSpec::n_best_size,
              "Number of answers that predict writes for each question, with probabilities; 1: only the best answer.")
          .at_least(1)
          .at_most(1000)
          .read_by(jobs(Job::predict)),
      setting("top_k", &TextSpec::top_k,
              "predict: number of tokens to write for each mask token of a text. generate: number of most likely "
              "tokens that `sample` chooses from.")
          .at_least(1)
          .at_most(1000000)
          .otherwise(Job::generate, int64_t{50})
          .read_by(jobs(Job::predict, Job::generate)),
      setting("pad_to_multiple", &TextSpec::pad_to_multiple,
              "Round the sequence length of a batch up to a multiple of this number of tokens.")
          .at_least(1)
          .read_by(kFeed)
          .also({"pad_to_multiple_of"}),
      setting("group_by_length", &TextSpec::group_by_length,
              "Put samples of similar length into the same batch, which reduces padding.")
          .read_by(kTrain),
      setting(
          "val_split", &DataSpec::val_split,
          "Fraction of the training data that is held out for validation, the same fraction of each class; 0: none.")
          .at_least(0)
          .below(1)
          .read_by(kTrain | jobs(Job::build)),
      setting("in_memory_max_size", &DeviceSpec::in_memory_max_size,
              "Bytes of data that are kept in memory. Texts and tokens beyond this go to a temporary file in $TMPDIR "
              "or /var/tmp, and larger files are mapped. 0: a quarter of the memory.")
          .at_least(0)
          .read_by(kFeed)
          .may_change(),
      setting("limit_train", &DataSpec::limit_train, "Number of samples to train on, chosen by `limit_order`; 0: all.")
          .at_least(0)
          .read_by(kTrain | jobs(Job::build))
          .also({"max_train_samples"}),
      setting("limit_val", &DataSpec::limit_val, "Number of samples to validate on, chosen by `limit_order`; 0: all.")
          .at_least(0)
          .read_by(jobs(Job::train, Job::evaluate))
          .also({"max_eval_samples", "max_val_samples"})
          .may_change(),
      setting("limit_order", &DataSpec::limit_order,
              "Samples that `limit_train` and `limit_val` keep. sample: a random sample by `seed` with the same "
              "fraction of each class; first: the first samples of the file.")
          .one_of({"sample", "first"})
          .read_by(jobs(Job::train, Job::evaluate, Job::build)),
      setting(
          "skip_bad_rows", &DataSpec::skip_bad_rows,
          "Number of rows of `train`, and of `val`, that may be left out because they cannot be used: a wrong number "
          "of fields, invalid JSON or UTF-8, a missing or unknown label or tag, an answer that is not in its text, a "
          "bad number or date, an "
          "image that is missing or cannot be decoded. They are listed. One more is an error.")
          .at_least(0)
          .shown_as("N")
          .read_by(jobs(Job::train, Job::evaluate, Job::build)),
      setting("shuffle", &DataSpec::shuffle, "Shuffle the training data in every epoch, by `seed`.")
          .read_by(kTrain)
          .also({"shuffle_train_dataset"}),
      setting("weighted_sampling", &DataSpec::weighted_sampling,
              "Draw training samples with replacement, so that all classes are equally frequent.")
          .read_by(kTrain),
  };
}

}  // namespace amp
