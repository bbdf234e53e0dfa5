// Implements questions.h: reads SQuAD's JSON or table rows, and cuts long passages into overlapping windows. Answers
// are stored in code points and mapped to tokens by the offsets of the tokenizer. The windows follow Hugging Face's
// run_qa, including [CLS] as the label of windows without the answer.
#include "data/questions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/activity.h"
#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

// Returns the code points [from, to) of a text.
std::string_view part(std::string_view text, int64_t from, int64_t to) {
  size_t at = 0, begin = text.size();
  for (int64_t c = 0; at < text.size() && c < to; ++c) {
    if (c == from) begin = at;
    at += static_cast<size_t>(decode_utf8(text, at).bytes);
  }
  return begin <= at ? text.substr(begin, at - begin) : std::string_view();
}

// Returns the byte at which each code point begins, so that finding many answers takes linear time.
std::vector<size_t> code_point_starts(std::string_view text) {
  std::vector<size_t> out;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(decode_utf8(text, at).bytes)) out.push_back(at);
  return out;
}

bool stands_at(std::string_view passage, const std::vector<size_t>& starts, const Answer& answer) {
  if (answer.begin < 0 || answer.text.empty()) return answer.begin >= 0;
  const auto begin = static_cast<size_t>(answer.begin);
  return begin < starts.size() && passage.substr(starts[begin]).starts_with(answer.text);
}

// Reads SQuAD's JSON question by question. A question that cannot be read is left out if the settings permit it.
// Questions are numbered from 1 in the order of the file. An element that is not a question or paragraph, but is in the
// place of one, is counted as well.
class SquadReader {
 public:
  SquadReader(const std::string& name, AnswersAre answers, SkippedRows& skipped, AnswerKey& key)
      : name_(name), answers_(answers), skipped_(skipped), key_(key) {}

  void read(const nlohmann::json& file) {
    for (const auto& article : file.at("data")) each(article, "paragraphs", [&](const auto& p) { paragraph(p); });
  }

 private:
  // Calls f for each element of parent[list]. A parent without this list counts as one faulty question.
  template <class F>
  void each(const nlohmann::json& parent, const char* list, F&& f) {
    const nlohmann::json* elements = nullptr;
    const auto find = [&] { elements = &parent.at(list); };
    if (skipped_.most() == 0 || (parent.is_object() && parent.contains(list))) {
      find();
      for (const auto& element : *elements) f(element);
    } else {
      ++number_;
      attempt(find);
    }
  }

  void paragraph(const nlohmann::json& p) {
    std::vector<size_t> starts;
    bool first = true;
    each(p, "qas", [&](const nlohmann::json& qa) {
      ++number_;
      attempt([&] {
        if (first) {
          key_.passages.push_back(p.at("context").get<std::string>());
          starts = code_point_starts(key_.passages.back());
          first = false;
        }
        key_.questions.push_back(question(qa, starts));
      });
    });
  }

  // Reads a question about the last passage.
  Question question(const nlohmann::json& qa, const std::vector<size_t>& starts) const {
    Question q;
    q.id = qa.at("id").is_string() ? qa.at("id").get<std::string>() : qa.at("id").dump();
    q.text = qa.at("question").get<std::string>();
    q.passage = key_.passages.size() - 1;
    q.line = number_;
    const auto refuse = [&](const std::string& fact, const std::string& hint = {}) {
      fail(Exit::data, "E_DATA_LABEL", cat(name_, ": question '", printable(q.id), "' ", fact), hint);
    };
    const bool none = answers_ == AnswersAre::given_or_no && qa.value("is_impossible", false);
    for (const auto& a : answers_ == AnswersAre::unread || none ? nlohmann::json::array() : qa.at("answers")) {
      q.answers.push_back({a.at("text").get<std::string>(), a.at("answer_start").get<int64_t>()});
      const Answer& answer = q.answers.back();
      if (!stands_at(key_.passages.back(), starts, answer))
        refuse(cat("has the answer '", printable(answer.text), "', which is not at character ", answer.begin,
                   " of its context"));
    }
    if (answers_ == AnswersAre::given && q.answers.empty())
      refuse("has no answer", "questions without an answer (SQuAD 2.0) need `version_2_with_negative`");
    return q;
  }

  // Calls f, which reads the question with the current number. Leaves the question out if f fails.
  template <class F>
  void attempt(F&& f) {
    if (skipped_.most() == 0) return f();
    try {
      f();
    } catch (const Error& e) {
      skipped_.add(e, name_, number_);
    } catch (const nlohmann::json::exception& e) {
      skipped_.add(Error(Exit::data, "E_DATA_JSON",
                         cat(name_, ": question ", number_, " is not in SQuAD's form: ", printable(e.what()))),
                   name_, number_);
    }
  }

  const std::string& name_;
  const AnswersAre answers_;
  SkippedRows& skipped_;
  AnswerKey& key_;
  int64_t number_ = 0;
};

}  // namespace

void AnswerKey::append(AnswerKey other, int32_t file) {
  check(windows.empty() && other.windows.empty(), "questions are joined before they are cut into windows");
  for (Question& q : other.questions) {
    q.passage += passages.size();
    q.file = file;
    questions.push_back(std::move(q));
  }
  passages.insert(passages.end(), other.passages.begin(), other.passages.end());
}

std::optional<std::pair<int32_t, int32_t>> AnswerKey::place(int64_t sample, int64_t first, int64_t last) const {
  const Window& w = windows.at(static_cast<size_t>(sample));
  const auto n = static_cast<int64_t>(w.parts.size());
  if (first < w.first || last < first || last >= w.first + n) return {};
  const auto at = [&](int64_t token) { return w.parts[static_cast<size_t>(token - w.first)]; };
  return std::pair{at(first).first, at(last).second};
}

std::string AnswerKey::text(int64_t sample, int64_t first, int64_t last) const {
  const auto at = place(sample, first, last);
  const size_t question = windows[static_cast<size_t>(sample)].question;
  return at ? std::string(part(passages[questions[question].passage], at->first, at->second)) : std::string();
}

AnswerKey parse_squad(std::string_view bytes, const std::string& name, AnswersAre answers, SkippedRows* skip) {
  check_utf8_file(bytes, name);
  AnswerKey key;
  SkippedRows none;
  SkippedRows& skipped = skip ? *skip : none;
  const size_t before = skipped.rows().size();
  try {
    if (const std::string excess = json_excess(bytes, false); !excess.empty())
      fail(Exit::data, "E_DATA_JSON", cat(name, ": the file ", excess));
    SquadReader(name, answers, skipped, key).read(nlohmann::json::parse(bytes));
  } catch (const nlohmann::json::exception& e) {
    fail(
        Exit::data, "E_DATA_JSON", cat(name, ": this is not SQuAD's JSON: ", printable(e.what())),
        R"(write {"data": [{"paragraphs": [{"context": "...", "qas": [{"id": "1", "question": "...", "answers": [{"text": "...", "answer_start": 0}]}]}]}]})");
  }
  const auto empty = [](const Question& q) {
    return std::all_of(q.answers.begin(), q.answers.end(), [](const Answer& a) { return a.text.empty(); });
  };
  if (answers == AnswersAre::given && !key.questions.empty() &&
      std::all_of(key.questions.begin(), key.questions.end(), empty))
    fail(Exit::data, "E_DATA_LABEL", cat(name, ": every answer is empty"),
         "training and evaluation take \"answers\": [{\"text\": ..., \"answer_start\": ...}] for each question");
  if (key.questions.empty() && skipped.rows().size() > before)
    fail(Exit::data, "E_DATA_EMPTY", cat(name, ": no question can be read; the first: ", skipped.rows()[before].reason),
         "mend the questions, or look whether the file has another form");
  if (key.questions.empty())
    fail(Exit::data, "E_DATA_EMPTY", cat(name, ": there is no question"), "write at least one");
  return key;
}

void add_question_row(const Table& table, int64_t row, const std::string& question, const std::string& passage,
                      const std::string& answer, bool may_have_none, AnswerKey& key) {
  const std::string_view asked = table.text(row, table.column(question)), text = table.text(row, table.column(passage));
  Question q{std::to_string(row), std::string(asked), key.passages.size(), {}, table.line(row), table.file(row)};
  const std::string_view found = answer.empty() ? std::string_view() : table.text(row, table.column(answer));
  if (!answer.empty() && !(may_have_none && found.empty())) {
    const size_t at = text.find(found);
    if (at == std::string_view::npos)
      fail(Exit::data, "E_DATA_LABEL",
           cat(table.where(row), ": the answer '", printable(std::string(found)), "' in column '", printable(answer),
               "' is not in column '", printable(passage), "'"),
           "an answer is a part of its text, character by character");
    q.answers.push_back({std::string(found), count_code_points(text.substr(0, at))});
  }
  key.passages.emplace_back(text);
  key.questions.push_back(std::move(q));
}

AnswerKey question_rows(const Table& table, const std::string& question, const std::string& passage,
                        const std::string& answer, bool may_have_none) {
  AnswerKey key;
  for (int64_t r = 0; r < table.rows(); ++r) add_question_row(table, r, question, passage, answer, may_have_none, key);
  return key;
}

namespace {
// Returns the index of [CLS], the label of windows without an answer; 0 if there is none.
int64_t cls_in(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  const auto at = std::find(ids.begin(), ids.end(), tokenizer.special().cls);
  return at == ids.end() ? 0 : at - ids.begin();
}
}  // namespace

std::vector<LabeledText> encode_questions(AnswerKey& key, const Tokenizer& tokenizer, int64_t max_seq_len,
                                          int64_t doc_stride) {
  const int64_t most = max_seq_len > 0 ? max_seq_len : INT32_MAX;
  if (most < 8)
    fail(Exit::usage, "E_SEQ_LEN", cat("max_seq_len is ", max_seq_len, ": too short for a question and its passage"),
         "raise `max_seq_len`");
  std::vector<std::vector<Piece>> passages;
  Activity tokenizing("tokenizing", "texts", std::ssize(key.passages) + std::ssize(key.questions));
  for (const std::string& p : key.passages) {
    passages.push_back(tokenizer.pieces(p));
    tokenizing.add(1);
  }
  std::vector<LabeledText> out;
  key.windows.clear();
  for (size_t q = 0; q < key.questions.size(); ++q) {
    tokenizing.add(1);
    const std::vector<Piece>& all = passages[key.questions[q].passage];
    std::vector<Piece> question = tokenizer.pieces(key.questions[q].text);
    question.resize(std::min(question.size(), static_cast<size_t>(most / 2)));
    const auto asked = static_cast<int64_t>(question.size()), total = static_cast<int64_t>(all.size());
    const int64_t head = ids_before(tokenizer.pair(), TemplatePart::What::second, asked);
    const int64_t room = most - asked - count_special(tokenizer.pair()),
                  step = std::max<int64_t>(1, room - std::clamp<int64_t>(doc_stride, 0, room - 1));
    const Answer answer = key.questions[q].answers.empty() ? Answer{} : key.questions[q].answers.front();
    const int64_t begin = answer.begin, end = begin + count_code_points(answer.text);
    for (int64_t at = 0; at == 0 || at - step + room < total; at += step) {
      const int64_t stop = std::min(total, at + room);
      const std::span<const Piece> part =
          std::span(all).subspan(static_cast<size_t>(at), static_cast<size_t>(stop - at));
      LabeledText s;
      s.line = key.questions[q].line;
      s.file = key.questions[q].file;
      s.row = static_cast<int64_t>(key.questions[q].passage);
      s.encoding = assemble(tokenizer.pair(), question, part);
      AnswerKey::Window w{q, head, {}, cls_in(tokenizer, s.encoding.ids)};
      int64_t first = -1, last = -1;
      for (const Piece& p : part) {
        const int64_t token = head + static_cast<int64_t>(w.parts.size());
        w.parts.emplace_back(p.begin, p.end);
        if (p.begin <= begin) first = token;         // last token that begins at or before the answer
        if (last < 0 && p.end >= end) last = token;  // first token that ends at or after the answer
      }
      const bool inside =
          end > begin && !w.parts.empty() && w.parts.front().first <= begin && w.parts.back().second >= end;
      s.labels = inside ? std::vector<int64_t>{first, last} : std::vector<int64_t>(2, w.none);
      out.push_back(std::move(s));
      key.windows.push_back(std::move(w));
    }
  }
  return out;
}

}  // namespace amp
