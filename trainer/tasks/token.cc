// Token classification: predicts a class for each word. The word's first token has the label. Entity tags are scored by
// entity. Predictions are the tags and the entities with their exact text; a word cut off at the end of a long text has
// no prediction. The error of a sample is -log p of its labels, summed over the words that are wrong.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/class_metrics.h"
#include "trainer/tasks/entities.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class TokenMetrics final : public ClassMetrics {
 public:
  TokenMetrics(const LossSpec& loss, const MetricContext& context)
      : ClassMetrics(loss), tags_(are_entity_tags(context.classes) ? context.classes : std::vector<std::string>()) {}

  MetricValues values(double) const override {
    MetricValues out = {{"accuracy", classes().accuracy()}, {"macro_f1", classes().macro_f1()}};
    if (tags_.empty()) return out;
    out.emplace_back("entity_precision", entities_.precision());
    out.emplace_back("entity_recall", entities_.recall());
    out.emplace_back("entity_f1", entities_.f1());
    return out;
  }

 private:
  void counted(const HostTensor&, const HostTensor& label, int64_t, const std::vector<int64_t>& ids,
               const std::vector<int64_t>& wanted) override {
    if (!tags_.empty() && label.rank() == 2) add_entities(label.dims()[1], ids, wanted);
  }

  // Adds the entities of each row. A row is a text, whose words are the positions with a label that is not ignored.
  void add_entities(int64_t length, const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted) {
    const auto name = [&](int64_t id) {
      return id >= 0 && id < static_cast<int64_t>(tags_.size()) ? tags_[static_cast<size_t>(id)] : "O";
    };
    for (size_t row = 0; row < wanted.size(); row += static_cast<size_t>(length)) {
      std::vector<std::string> got, want;
      for (size_t i = row; i < row + static_cast<size_t>(length); ++i) {
        if (wanted[i] == loss_.ignore_index()) continue;
        got.push_back(name(ids[i]));
        want.push_back(name(wanted[i]));
      }
      entities_.add(got, want);
    }
  }

  std::vector<std::string> tags_;  // names of entity tags; empty if the classes are not entity tags
  EntityScores entities_;
};

// The text that contains the words, and the byte range of each word in it.
struct WordPlaces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> words;  // begin and end of each word in `text`, in bytes

  explicit WordPlaces(const TaggedText& t) : text(t.text.empty() ? join(t.words, " ") : t.text) {
    size_t at = 0;
    for (const std::string& w : t.words) {
      const size_t begin = text.find(w, at);
      if (begin == std::string::npos) bug("a word that is not in its text");
      at = begin + w.size();
      words.emplace_back(begin, at);
    }
  }
};

class Tags final : public Predictions {
 public:
  Tags(const LossSpec&, const PredictionContext& context) : tagged_(context.tagged), names_(context.classes) {
    for (const TaggedText& t : tagged_) {
      ids_.emplace_back(t.words.size(), -1);
      probabilities_.emplace_back(t.words.size(), 0);
    }
  }

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {  // (rows, tokens, classes)
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const int64_t tokens = batch.labels.dims().at(1);
    const int64_t classes = width_of(out, batch.rows) / tokens;
    if (out.numel() != batch.rows * tokens * classes || classes < 1)
      fail(Exit::usage, "E_TASK",
           cat("the model's output of shape ", to_string(out.dims()), " has no place for each token"),
           "give the task that the model is for with `task`");
    const auto* const words = batch.labels.as<int64_t>();
    std::vector<double> p(static_cast<size_t>(classes));
    for (int64_t i = 0; i < batch.rows * tokens; ++i) {
      if (words[i] == kIgnoreIndex) continue;
      softmax({out.as<float>() + i * classes, static_cast<size_t>(classes)}, p);
      const auto best = std::max_element(p.begin(), p.end());
      const auto sample = static_cast<size_t>(batch.samples[static_cast<size_t>(i / tokens)]);
      ids_[sample][static_cast<size_t>(words[i])] = best - p.begin();
      probabilities_[sample][static_cast<size_t>(words[i])] = *best;
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    const auto r = static_cast<size_t>(row);
    nlohmann::ordered_json tags = nlohmann::ordered_json::array();
    std::vector<std::string> names;
    for (const int64_t id : ids_[r]) {
      names.push_back(id < 0 ? "O" : class_name(names_, id));
      tags.push_back(id < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(names.back()));
    }
    std::vector<PredictedField> out = {{"predicted_tags", std::move(tags), ' '}};
    if (are_entity_tags(names_)) out.push_back({"entities", entities(r, names)});
    return out;
  }

  std::vector<NamedTensor> tensors() const override {
    size_t longest = 1;
    for (const auto& ids : ids_) longest = std::max(longest, ids.size());
    const Dims dims = {static_cast<int64_t>(ids_.size()), static_cast<int64_t>(longest)};
    std::vector<int64_t> ids(ids_.size() * longest, kIgnoreIndex);
    std::vector<float> probabilities(ids.size(), 0);
    for (size_t r = 0; r < ids_.size(); ++r) {
      for (size_t w = 0; w < ids_[r].size(); ++w) {
        if (ids_[r][w] >= 0) ids[r * longest + w] = ids_[r][w];
        probabilities[r * longest + w] = static_cast<float>(probabilities_[r][w]);
      }
    }
    return {{"predicted_tags", HostTensor::of<int64_t>(dims, ids)},
            {"probability", HostTensor::of<float>(dims, probabilities)}};
  }

  int64_t cut() const override {
    return std::count_if(ids_.begin(), ids_.end(),
                         [](const auto& ids) { return std::find(ids.begin(), ids.end(), -1) != ids.end(); });
  }

 private:
  // Returns the entities of a text. The probability of an entity is the mean of the probabilities of its words.
  nlohmann::ordered_json entities(size_t r, const std::vector<std::string>& names) const {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    const std::vector<Entity> found = find_entities(names);
    if (found.empty()) return out;
    const WordPlaces places(tagged_[r]);
    for (const Entity& e : found) {
      const auto first = static_cast<size_t>(e.first), last = static_cast<size_t>(e.last);
      const auto [begin, end] = std::pair{places.words[first].first, places.words[last].second};
      const std::string_view text = places.text;
      double sum = 0;
      for (size_t w = first; w <= last; ++w) sum += probabilities_[r][w];
      out.push_back({{"type", e.type},
                     {"text", std::string(text.substr(begin, end - begin))},
                     {"begin", count_code_points(text.substr(0, begin))},
                     {"end", count_code_points(text.substr(0, end))},
                     {"probability", number(sum / static_cast<double>(last - first + 1))}});
    }
    return out;
  }

  std::span<const TaggedText> tagged_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> ids_;  // predicted class of each word; -1: no prediction
  std::vector<std::vector<double>> probabilities_;
};

class TagError final : public PerSampleError {
 public:
  TagError(const LossSpec&, const MetricContext& context) : names_(context.classes) {}

  double error(const SampleRow& r) const override {
    double sum = 0;
    each_token(r, [&](size_t want, const std::vector<double>& p) {
      if (largest(p) != want || std::isnan(p[want])) sum += minus_log(p[want]);
    });
    return sum > 0 ? sum : kNone;
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    std::vector<std::string> want, got;
    each_token(r, [&](size_t label, const std::vector<double>& p) {
      want.push_back(class_name(names_, static_cast<int64_t>(label)));
      got.push_back(class_name(names_, static_cast<int64_t>(largest(p))));
    });
    out.label = join(want, " ");
    out.predicted = join(got, " ");
  }

 private:
  // Calls f(label, probabilities) for each token. Outputs have the shape (rows, tokens, classes).
  template <class F>
  static void each_token(const SampleRow& r, const F& f) {
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    const Dims& d = r.outputs[0].dims();
    if (d.size() != 3 || d[1] != static_cast<int64_t>(label.size())) return;
    const auto classes = static_cast<size_t>(d[2]);
    std::vector<double> p(classes);
    for (size_t t = 0; t < label.size(); ++t) {
      if (label[t] < 0 || label[t] >= static_cast<double>(classes)) continue;
      softmax(x.subspan(t * classes, classes), p);
      f(static_cast<size_t>(label[t]), p);
    }
  }

  std::vector<std::string> names_;
};

std::string best_of_tags(const std::vector<std::string>& classes) {
  return are_entity_tags(classes) ? "entity_f1" : "accuracy";
}

const TaskRegistration token_row{{
    .name = "token",
    .synonyms = {"token_classification", "ner", "pos", "chunk"},
    .labels = LabelForm::tokens,
    .text = TextForm::tagged_words,
    .named_classes = true,
    .head = "token",
    .output_rank = 3,
    .class_axis = 2,
    .loss = "cross_entropy",
    .losses_of = {Task::classification, Task::language},
    .metrics = {{"accuracy"}, {"macro_f1"}, {"entity_precision"}, {"entity_recall"}, {"entity_f1"}},
    .best = "accuracy",
    .best_of = best_of_tags,
    .metrics_from = MetricsFrom::data,
    .make_metrics = metrics_as<TokenMetrics>,
    .make_predictions = predictions_as<Tags>,
    .make_error = error_as<TagError>,
}};

}  // namespace

}  // namespace amp
