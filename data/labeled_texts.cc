// Implements LabeledTexts. Arrays that most data do not need (types, positions, labels that differ from ids) are only
// filled once a text needs them.
#include "data/labeled_texts.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

void LabeledTexts::append(const LabeledText& text) {
  append(text.encoding, text.line, text.file, text.row);
  add_labels(text.labels);
  add_positions(text.restarts);
}

void LabeledTexts::append(const Encoding& encoding, int64_t line, int32_t file, int64_t row) {
  const bool typed = std::any_of(encoding.types.begin(), encoding.types.end(), [](uint8_t t) { return t != 0; });
  if (typed || !types_.empty()) {
    types_.resize(ids_.size());
    types_.append(encoding.types);
  }
  starts_.push_back(ids_.size());
  lengths_.push_back(static_cast<int32_t>(encoding.ids.size()));
  ids_.append(encoding.ids);
  lines_.push_back(line);
  files_.push_back(file);
  rows_.push_back(row);
}

void LabeledTexts::add_labels(const std::vector<int64_t>& labels) {
  const std::span<const int32_t> own = ids(size() - 1);
  if (label_starts_.empty()) {
    if (std::equal(labels.begin(), labels.end(), own.begin(), own.end())) return;
    for (size_t i = 0; i + 1 < size(); ++i) label_starts_.push_back(starts_[i]);
    label_starts_.push_back(ids_.size() - own.size());
    labels_.append({ids_.data(), ids_.size() - own.size()});
  }
  for (const int64_t l : labels) {
    check(l == static_cast<int32_t>(l), "LabeledTexts: a label that no id has");
    labels_.push_back(static_cast<int32_t>(l));
  }
  label_starts_.push_back(labels_.size());
}

void LabeledTexts::add_positions(const std::vector<int32_t>& restarts) {
  if (positions_.empty() && restarts.empty()) return;
  // Texts before the first packed one have the positions 0, 1, ...
  for (size_t text = 0, none = positions_.empty() ? size() - 1 : 0; text < none; ++text) {
    for (int32_t i = 0; i < lengths_[text]; ++i) positions_.push_back(i);
  }
  auto restart = restarts.begin();
  int32_t place = 0;
  for (int32_t i = 0; i < lengths_.back(); ++i, ++place) {
    if (restart != restarts.end() && *restart == i) {
      place = 0;
      ++restart;
    }
    positions_.push_back(place);
  }
}

std::span<const int32_t> LabeledTexts::labels(size_t text) const {
  if (label_starts_.empty()) return ids(text);
  return {labels_.data() + label_starts_[text], label_starts_[text + 1] - label_starts_[text]};
}

LabeledText LabeledTexts::operator[](size_t text) const {
  const std::span<const int32_t> of_ids = ids(text), of_labels = labels(text);
  LabeledText out;
  out.encoding.ids.assign(of_ids.begin(), of_ids.end());
  for (int64_t i = 0; i < length(text); ++i) {
    out.encoding.types.push_back(type(text, i));
    if (i > 0 && position(text, i) == 0) out.restarts.push_back(static_cast<int32_t>(i));
  }
  out.labels.assign(of_labels.begin(), of_labels.end());
  out.line = lines_[text];
  out.file = files_[text];
  out.row = rows_[text];
  return out;
}

}  // namespace amp
