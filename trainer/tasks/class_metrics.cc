// Counts the predicted classes of an evaluation and computes metrics from the counts. The predicted class is the one
// with the largest output; outputs may be [..., C] or, for pixels, [B, C, ...].
#include "trainer/tasks/class_metrics.h"

#include <algorithm>
#include <cmath>

#include "trainer/losses/loss.h"

namespace amp {

namespace {

// Returns C and the class with the largest output for each label, in the labels' order. Outputs are [..., C] for labels
// [...], or [B, C, ...] for labels [B, ...].
std::pair<int64_t, std::vector<int64_t>> class_ids(const HostTensor& out, const HostTensor& label, bool second) {
  const Dims& d = out.dims();
  const std::vector<float> x = floats(out);
  const bool last =
      d.size() < 3 || (!second && label.numel() * d.back() == out.numel() && label.dims().size() + 1 == d.size() &&
                       std::equal(label.dims().begin(), label.dims().end(), d.begin()));
  if (last) return {d.back(), argmax_rows(x.data(), d.back() ? out.numel() / d.back() : 0, d.back())};
  const int64_t classes = d[1], places = out.numel() / std::max<int64_t>(1, d[0] * classes);
  std::vector<float> row(static_cast<size_t>(classes));
  std::vector<int64_t> ids;
  for (int64_t b = 0; b < d[0]; ++b) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t c = 0; c < classes; ++c)
        row[static_cast<size_t>(c)] = x[static_cast<size_t>((b * classes + c) * places + p)];
      ids.push_back(argmax_rows(row.data(), 1, classes)[0]);
    }
  }
  return {classes, ids};
}

// Pairs the prediction at position s of a text with the label at s + 1.
void shift(int64_t length, std::vector<int64_t>& ids, std::vector<int64_t>& wanted) {
  std::vector<int64_t> from, to;
  for (size_t i = 0; i + 1 < wanted.size(); ++i) {
    if (static_cast<int64_t>(i + 1) % length == 0) continue;
    from.push_back(ids[i]);
    to.push_back(wanted[i + 1]);
  }
  ids = from;
  wanted = to;
}

}  // namespace

void ClassMetrics::add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) {
  const HostTensor& out = outputs.at(0);
  std::vector<int64_t> wanted = whole_numbers(label);
  if (out.numel() == label.numel()) return add_binary(floats(out), wanted);
  auto [classes, ids] = class_ids(out, label, second_axis_);
  if (loss_rule(loss_.kind).next_token) shift(label.dims().at(1), ids, wanted);
  count(classes, ids, wanted);
  counted(out, label, classes, ids, wanted);
}

void ClassMetrics::counted(const HostTensor&, const HostTensor&, int64_t, const std::vector<int64_t>&,
                           const std::vector<int64_t>&) {}

void ClassMetrics::add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted) {
  count(2, yes_or_no(logits), wanted);
}

std::vector<int64_t> ClassMetrics::yes_or_no(const std::vector<float>& logits) {
  std::vector<int64_t> ids;
  for (const float x : logits) ids.push_back(std::isnan(x) ? -1 : x > 0);
  return ids;
}

void ClassMetrics::count(int64_t classes, const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted) {
  if (!classes_) classes_ = std::make_unique<Classification>(classes);
  classes_->add(ids, wanted, loss_.ignore_index());
}

const Classification& ClassMetrics::classes() const {
  static const Classification none(0);
  return classes_ ? *classes_ : none;
}

}  // namespace amp
