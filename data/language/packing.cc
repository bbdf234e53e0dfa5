// Implements packing.h. Position ids restart at 0 where packed texts begin, and a text's first token gets no label,
// because the token before it belongs to another text.
#include "data/language/packing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset.h"

namespace amp {

namespace {

// Appends tokens [from, to) of a text, with their labels, to `out`.
void append(LabeledText& out, const LabeledText& text, size_t from, size_t to) {
  const auto part = [&](auto& to_list, const auto& from_list) {
    to_list.insert(to_list.end(), from_list.begin() + static_cast<std::ptrdiff_t>(from),
                   from_list.begin() + static_cast<std::ptrdiff_t>(to));
  };
  part(out.encoding.ids, text.encoding.ids);
  part(out.encoding.types, text.encoding.types);
  part(out.labels, text.labels);
}

LabeledText empty_like(const LabeledText& text) { return {{}, {}, text.line, text.file, text.row, {}}; }

}  // namespace

std::vector<LabeledText> windows_of(LabeledText text, const TokenTemplate& frame, int64_t max_seq_len, int64_t stride) {
  const size_t n = text.encoding.ids.size(), most = static_cast<size_t>(max_seq_len);
  std::vector<LabeledText> out;
  if (max_seq_len <= 0 || n <= most) {
    out.push_back(std::move(text));
    return out;
  }
  const auto before = static_cast<size_t>(ids_before(frame, TemplatePart::What::first, 0)),
             after = static_cast<size_t>(count_special(frame)) - before;
  if (before + after + static_cast<size_t>(stride) >= most)
    fail(Exit::usage, "E_SEQ_LEN",
         cat("sequences of ", most, " tokens with ", before + after, " special ones cannot have ", stride,
             " tokens of the one before"),
         "give a smaller `doc_stride`, or a larger `max_seq_len`");
  const size_t room = most - before - after, end = n - after;
  for (size_t from = before;; from += room - static_cast<size_t>(stride)) {
    const size_t to = std::min(end, from + room);
    LabeledText w = empty_like(text);
    append(w, text, 0, before);
    append(w, text, from, to);
    append(w, text, end, n);
    // Each token has a label in one window only. Tokens that the previous window already contained have none.
    const size_t seen = from == before ? 0 : before + static_cast<size_t>(stride);
    std::fill_n(w.labels.begin(), seen, kIgnoreIndex);
    if (to < end) std::fill_n(w.labels.end() - static_cast<std::ptrdiff_t>(after), after, kIgnoreIndex);
    out.push_back(std::move(w));
    if (to == end) return out;
  }
}

LabeledTexts wrap_texts(const LabeledTexts& texts, int64_t length) {
  LabeledTexts out;
  LabeledText open;
  const auto most = static_cast<size_t>(length);
  for (size_t i = 0; i < texts.size(); ++i) {
    const LabeledText t = texts[i];
    for (size_t at = 0, n = t.encoding.ids.size(); at < n;) {
      if (open.encoding.ids.empty()) open = empty_like(t);
      const size_t to = std::min(n, at + most - open.encoding.ids.size());
      append(open, t, at, to);
      at = to;
      if (open.encoding.ids.size() < most) continue;
      out.append(open);
      open = {};
    }
  }
  if (!open.encoding.ids.empty()) out.append(open);
  return out;
}

namespace {

// Returns, for each sequence, the indices of the texts in it, chosen by best-fit decreasing.
std::vector<std::vector<size_t>> fit_texts(const LabeledTexts& texts, int64_t length) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts.length(a) > texts.length(b); });
  std::vector<std::vector<size_t>> out;
  std::map<int64_t, std::deque<size_t>> open;  // key: the number of ids that still fit; value: sequences, oldest first
  for (const size_t i : order) {
    const int64_t size = texts.length(i);
    if (size == 0) continue;
    check(size <= length, "texts are cut before they are packed");
    auto best = open.lower_bound(size);
    int64_t room = length;
    size_t to = out.size();
    if (best == open.end()) {
      out.emplace_back();
    } else {
      room = best->first;
      to = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) open.erase(best);
    }
    out[to].push_back(i);
    if (room > size) open[room - size].push_back(to);
  }
  return out;
}

}  // namespace

LabeledTexts pack_texts(const LabeledTexts& texts, int64_t length) {
  LabeledTexts out;
  for (const std::vector<size_t>& together : fit_texts(texts, length)) {
    LabeledText sequence = empty_like(texts[together[0]]);
    for (const size_t i : together) {
      const size_t begin = sequence.labels.size();
      if (begin > 0) sequence.restarts.push_back(static_cast<int32_t>(begin));
      const LabeledText t = texts[i];
      append(sequence, t, 0, t.encoding.ids.size());
      sequence.labels[begin] = kIgnoreIndex;  // this token would be predicted from another text
    }
    out.append(sequence);
  }
  return out;
}

}  // namespace amp
