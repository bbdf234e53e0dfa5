// Reads and tokenizes texts whose words have tags, such as entities or parts of speech.
//
// CoNLL: one word per line, its columns separated by tabs, or by spaces if the line has no tab. The first column is the
// word, the last its tag. An empty line ends a text; "-DOCSTART-" lines are left out. Table: words and tags are in two
// columns, as JSON arrays or separated by spaces.
//
// Errors have exit code 5: E_DATA_LABEL for a word without a tag or a tag without a word, E_DATA_EMPTY, E_DATA_UTF8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/class_names.h"
#include "data/skipped_rows.h"
#include "data/table.h"
#include "data/text_dataset.h"

namespace amp {

struct TaggedText {
  std::vector<std::string> words, tags;
  int64_t line = 0;       // line of the first word
  int32_t file = 0;       // index of the text's file
  std::string text = {};  // the original text, if the row has one
};

// Parses CoNLL's format. tagged: every word must have a tag. Otherwise tags are optional, as for prediction. skip:
// texts with a faulty line that may be left out, listed by the line of their first word; null: none may be.
std::vector<TaggedText> parse_conll(std::string_view bytes, const std::string& name, bool tagged = true,
                                    SkippedRows* skip = nullptr);
// Reads the text of a row; arguments as of tagged_rows().
TaggedText tagged_row(const Table& table, int64_t row, const std::string& words, const std::string& tags);
// Reads one text per row. tags: name of the column of tags; empty: no tags.
std::vector<TaggedText> tagged_rows(const Table& table, const std::string& words, const std::string& tags);

// Returns the distinct tags in natural order.
std::vector<std::string> distinct_tags(const std::vector<TaggedText>& texts);
// Like distinct_tags, for training data: throws E_DATA_LABEL if there are fewer than two.
std::vector<std::string> find_tags(const std::vector<TaggedText>& texts, const std::string& name);

// Throws E_DATA_LABEL_NEW if a tag is not one of the classes, which `index` holds. names: names of the files.
void require_known_tags(const TaggedText& text, const std::vector<std::string>& names, const LabelIndex& index,
                        const ClassNames& classes);

// Tokenizes texts: [CLS] tokens [SEP], truncated to max_seq_len (0: not truncated), with a label for each id. Words are
// tokenized one by one. A word's first token has the word's class; its other tokens and the special tokens have
// kIgnoreIndex, as in Hugging Face's run_ner. Throws E_DATA_LABEL_NEW for an unknown tag.
std::vector<LabeledText> encode_tagged(const std::vector<TaggedText>& texts, const std::vector<std::string>& names,
                                       const Tokenizer& tokenizer, const ClassNames& classes, int64_t max_seq_len);
// Like encode_tagged, without tags: the label of a word's first token is the word's index in its text.
std::vector<LabeledText> encode_words(const std::vector<TaggedText>& texts, const Tokenizer& tokenizer,
                                      int64_t max_seq_len);

}  // namespace amp
