// Texts whose words have tags: entities, parts of speech. From CoNLL-like files or from tables.
//
// CoNLL: a word a line, its columns between tabs, or between spaces where the line has no tab: first the word, last its
// tag; an empty line ends a text, "-DOCSTART-" is one of its own and left out.
// Table: words and tags as JSON arrays, or between spaces, in two columns.
//
// Errors, exit 5: E_DATA_LABEL for a word without a tag or the other way round, E_DATA_EMPTY, E_DATA_UTF8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/class_names.h"
#include "data/table.h"
#include "data/text_dataset.h"

namespace amp {

struct TaggedText {
  std::vector<std::string> words, tags;
  int64_t line = 0;       // of its first word
  int32_t file = 0;       // of several
  std::string text = {};  // that the words stand in, where there is more than them
};

// tagged: every word has a tag. Otherwise tags are read where there are any, as of texts to predict.
std::vector<TaggedText> parse_conll(std::string_view bytes, const std::string& name, bool tagged = true);
// tags: the column; empty: none.
std::vector<TaggedText> tagged_rows(const Table& table, const std::string& words, const std::string& tags);

// The distinct tags, in natural order.
std::vector<std::string> distinct_tags(const std::vector<TaggedText>& texts);
// The same of training data: E_DATA_LABEL where there is only one.
std::vector<std::string> find_tags(const std::vector<TaggedText>& texts, const std::string& name);

// Texts as a model reads them: [CLS] pieces [SEP], cut to max_seq_len (0: not cut), with a label for each id. Words are
// tokenized one by one. A word's first piece has the word's class, its others and the special tokens kIgnoreIndex, as
// in Hugging Face's run_ner. A tag that means none of the classes: E_DATA_LABEL_NEW.
std::vector<LabelledText> encode_tagged(const std::vector<TaggedText>& texts, const std::vector<std::string>& names,
                                        const Tokenizer& tokenizer, const ClassNames& classes, int64_t max_seq_len);
// The same without tags: a word's first piece has the word's place in its text for a label.
std::vector<LabelledText> encode_words(const std::vector<TaggedText>& texts, const Tokenizer& tokenizer,
                                       int64_t max_seq_len);

}  // namespace amp
