// Tokenizes rows for causal language models and computes for which token ids there is a loss. Byte ranges of the text
// (answers) become labels of the tokens that overlap them.
#include "data/language/language.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/each_row.h"

namespace amp {

using nlohmann::ordered_json;

namespace {

// Returns labels. A token is labeled with its id if it shares a character with one of the parts [begin, end) of the
// text, in bytes.
std::vector<int64_t> labels_in(std::string_view text, const std::vector<Piece>& pieces,
                               const std::vector<std::pair<size_t, size_t>>& parts) {
  std::vector<int64_t> labels(pieces.size(), kIgnoreIndex);
  for (const auto& [from, to] : parts) {
    if (from == to) continue;
    const int64_t begin = count_code_points(text.substr(0, from)),
                  end = begin + count_code_points(text.substr(from, to - from));
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].begin < end && pieces[i].end > begin) labels[i] = pieces[i].id;
    }
  }
  return labels;
}

// Adds special tokens to a text. Among these, only an end-of-text token after the text has a label.
LabeledText framed(const Tokenizer& tokenizer, const std::vector<Piece>& pieces, const std::vector<int64_t>& labels) {
  const TokenTemplate& frame = tokenizer.single();
  LabeledText out;
  out.encoding = assemble(frame, pieces);
  out.labels.assign(out.encoding.ids.size(), kIgnoreIndex);
  const int64_t before = ids_before(frame, TemplatePart::What::first, 0);
  std::copy(labels.begin(), labels.end(), out.labels.begin() + before);
  const size_t last = static_cast<size_t>(before) + pieces.size();
  if (last < out.labels.size() && out.encoding.ids[last] == tokenizer.special().eos)
    out.labels[last] = tokenizer.special().eos;
  return out;
}

// Appends an end-of-text token unless the text or its template already ends with one.
void end_with_eos(const Tokenizer& tokenizer, std::vector<Piece>& pieces) {
  const int32_t eos = tokenizer.special().eos;
  const TokenTemplate& frame = tokenizer.single();
  const bool in_frame = !frame.empty() && frame.back().what == TemplatePart::What::special && frame.back().id == eos;
  if (eos < 0 || in_frame || (!pieces.empty() && pieces.back().id == eos)) return;
  const int32_t end = pieces.empty() ? 0 : pieces.back().end;
  pieces.push_back({eos, end, end});
}

}  // namespace

LanguageReader::LanguageReader(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                               LanguageOptions options)
    : table_(table), tokenizer_(tokenizer), chat_(std::move(chat)), options_(std::move(options)) {
  if (options_.columns.empty() || options_.columns.size() > 2)
    fail(Exit::usage, "E_TEXT_COLUMNS",
         cat("a language model reads one or two columns, ", options_.columns.size(), " given"),
         "name the column of texts or conversations, or those of prompts and completions");
  for (const std::string& name : options_.columns) columns_.push_back(table.column(name));
}

LabeledText LanguageReader::read(int64_t row) const {
  const bool chat = table_.is_json(row, columns_[0]);
  LabeledText out = chat                   ? conversation(row)
                    : columns_.size() == 1 ? plain(table_.text(row, columns_[0]))
                                           : completion(table_.text(row, columns_[0]), table_.text(row, columns_[1]));
  if (options_.packing == TextPacking::stride && (chat || columns_.size() > 1))
    fail(Exit::usage, "E_PACKING", "`packing` stride is for plain texts, these rows are prompts with answers",
         "give `packing` wrapped or `packing` bfd, or leave it out");
  out.line = table_.line(row);
  out.file = table_.file(row);
  out.row = row;
  return out;
}

LabeledText LanguageReader::plain(std::string_view text) const {
  LabeledText out;
  if (!options_.end_texts) {
    out.encoding = tokenizer_.encode(text);
  } else {
    std::vector<Piece> pieces = tokenizer_.pieces(text);
    end_with_eos(tokenizer_, pieces);
    out.encoding = assemble(tokenizer_.single(), pieces);
  }
  out.labels.assign(out.encoding.ids.begin(), out.encoding.ids.end());
  return out;
}

LabeledText LanguageReader::completion(std::string_view prompt, std::string_view completion) const {
  const std::string text = cat(prompt, completion);
  std::vector<Piece> pieces = tokenizer_.pieces(text);
  const size_t begin = options_.loss_on == LossOn::all ? 0 : prompt.size();
  std::vector<int64_t> labels = labels_in(text, pieces, {{begin, text.size()}});
  if (options_.end_answers) end_with_eos(tokenizer_, pieces);
  if (pieces.size() > labels.size()) labels.push_back(pieces.back().id);
  return framed(tokenizer_, pieces, labels);
}

LabeledText LanguageReader::conversation(int64_t row) const {
  if (!chat_)
    fail(Exit::usage, "E_CHAT_TEMPLATE_MISSING",
         cat(table_.where(row), ": column '", printable(options_.columns[0]),
             "' holds conversations, but the tokenizer's folder has no chat template"),
         "give it with `chat_template` FILE: a Jinja file, or a tokenizer_config.json");
  ordered_json messages = read_messages(table_.json(row, columns_[0]), table_.where(row, columns_[0]));
  size_t prompt = 0;
  if (columns_.size() == 2) {
    prompt = messages.size();
    if (!table_.is_json(row, columns_[1]))
      fail(Exit::data, "E_DATA_CHAT",
           cat(table_.where(row, columns_[1]), ": the prompt is a conversation, this is none"),
           "write a list of messages in both columns, or a text in both");
    for (ordered_json& m : read_messages(table_.json(row, columns_[1]), table_.where(row, columns_[1])))
      messages.push_back(std::move(m));
  }
  ordered_json tools = nullptr;
  if (table_.has_column("tools") && table_.is_json(row, table_.column("tools")))
    tools = ordered_json::parse(table_.json(row, table_.column("tools")), nullptr, false);
  RenderedChat chat;
  try {
    chat = chat_->conversation(messages, tools, options_.loss_on, prompt);
  } catch (const Error& e) {
    fail(e.exit(), e.id(), cat(table_.where(row), ": ", e.fact()), e.hint());
  }
  const std::vector<Piece> pieces = tokenizer_.pieces(chat.text);
  LabeledText out;
  for (const Piece& p : pieces) out.encoding.ids.push_back(p.id);
  out.encoding.types.assign(pieces.size(), 0);
  out.labels = labels_in(chat.text, pieces, chat.answers);
  return out;
}

namespace {

// Truncates to max_seq_len and keeps the special tokens after the text.
void cut(LabeledText& t, const Tokenizer& tokenizer, bool in_frame, int64_t max_seq_len) {
  const TokenTemplate& frame = tokenizer.single();
  const int64_t behind = in_frame ? count_special(frame) - ids_before(frame, TemplatePart::What::first, 0) : 0;
  const auto n = static_cast<int64_t>(t.encoding.ids.size()), keep = max_seq_len - behind;
  const auto shorten = [&](auto& list) { list.erase(list.begin() + keep, list.begin() + (n - behind)); };
  shorten(t.encoding.ids);
  shorten(t.encoding.types);
  shorten(t.labels);
}

}  // namespace

LanguageTexts encode_language(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                              const LanguageOptions& options) {
  const LanguageReader reader(table, tokenizer, std::move(chat), options);
  const size_t first = table.column(options.columns.at(0));
  const int64_t most = options.max_seq_len;
  if (most == 0 && options.packing != TextPacking::none && options.packing != TextPacking::stride)
    fail(Exit::usage, "E_PACKING", "packed sequences have a length, `max_seq_len` is 0", "give it with `max_seq_len`");
  if (most > 0 && most <= count_special(tokenizer.single()))
    fail(Exit::usage, "E_SEQ_LEN", cat("max_seq_len is ", most, ": too short for a text and its special tokens"),
         "raise `max_seq_len`");
  LanguageTexts out;
  const auto add = [&](LabeledText& t) {
    const bool long_one = most > 0 && static_cast<int64_t>(t.encoding.ids.size()) > most;
    if (options.packing == TextPacking::stride && long_one) {
      for (const LabeledText& w : windows_of(std::move(t), tokenizer.single(), most, options.stride))
        out.texts.append(w);
      return;
    }
    if (long_one && options.packing != TextPacking::wrapped) {
      cut(t, tokenizer, !table.is_json(t.row, first), most);
      ++out.cut;
    }
    const bool learnt = has_something_to_learn(t.labels);
    out.unanswered += !learnt;
    if (learnt || options.keep_rows || options.packing == TextPacking::wrapped) out.texts.append(t);
  };
  for_each_made(
      table.rows(), [&](int64_t r) { return reader.read(r); }, [&](int64_t, LabeledText& t) { add(t); });
  if (options.packing == TextPacking::wrapped) out.texts = wrap_texts(out.texts, most);
  if (options.packing == TextPacking::bfd) out.texts = pack_texts(out.texts, most);
  return out;
}

}  // namespace amp
