// The verb generate: greedy or top-k sampled text from a causal or an encoder-decoder model. Each token runs the whole
// text again, because exported graphs have no key-value cache. Lengths are padded to multiples of 32, so that few
// Programs are compiled.
#include "run/evaluate/generate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"
#include "data/language/seq2seq.h"
#include "data/text_dataset.h"
#include "run/data/data.h"
#include "run/data/language_data.h"
#include "run/data/text_rows.h"
#include "run/data/tokenize.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_metadata.h"
#include "run/model/operator_advice.h"
#include "run/prepare/common.h"
#include "run/prepare/finished_run.h"
#include "run/prepare/losses.h"
#include "run/prepare/objective.h"
#include "run/prepare/prepare.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Texts are padded to a multiple of this, because each length needs its own Program.
constexpr int64_t kLengthStep = 32;

std::string logits_of(RunSpec spec, const SourceGraph& g, Task task) {
  const std::vector<LossSpec> asked = requested_losses(spec.objective).parts;
  const bool own =
      std::any_of(asked.begin(), asked.end(), [](const LossSpec& s) { return loss_rule(s.kind).own_output; });
  // If the model computes this loss itself, its logits are another output.
  if (own) spec.objective.loss = RunSpec::Texts{};
  const Objective objective = task_rule(task).writes_text() ? choose_objective(spec, g, {}, task, Log()) : Objective{};
  const LossSpec* const loss = measured_loss(objective);
  if (!loss || (task_rule(task).text == TextForm::own_tokens && !loss_rule(loss->kind).next_token))
    fail(Exit::usage, "E_TASK", "the model says of itself that it is no causal language model",
         "generate needs logits of each next token, (batch, length, vocabulary); `task` language and `task` seq2seq "
         "train such models");
  return loss->values().front();
}

// Runs the model on a text and returns the logits of the next token.
class NextToken {
 public:
  NextToken(const RunSpec& spec, const SourceGraph& g, const std::string& logits, const Tokenizer& tokenizer,
            const Log& log)
      : logits_(logits),
        outputs_{g.find(logits)},
        tokenizer_(tokenizer),
        session_(g, session_options(spec, Job::generate, choose_plan(spec.precision, Job::generate, g, log), log)),
        inputs_(input_specs(g, needed_inputs(g, outputs_))),
        fixed_(fixed_length(inputs_)) {}

  int64_t fixed() const { return fixed_; }  // the only length that the graph accepts; 0: any

  // Returns the logits (vocabulary) after the last id. `most`: the maximal length of the text.
  std::vector<float> logits(const std::vector<int32_t>& ids, int64_t most) {
    LabeledText text;
    text.encoding.ids = ids;
    text.encoding.types.assign(ids.size(), 0);
    text.labels.assign(ids.begin(), ids.end());
    TextOptions options;
    options.labels = LabelForm::ids;
    options.max_seq_len = most;
    options.pad_to_multiple = kLengthStep;
    options.fixed_seq_len = fixed_;
    const auto data = make_labeled_dataset({std::move(text)}, {"the prompt"}, tokenizer_, inputs_, options);
    return logits_at(*data, static_cast<int64_t>(ids.size()) - 1);
  }

  // Returns the logits (vocabulary) of an encoder-decoder model after the target ids.
  std::vector<float> logits(const LabeledText& source, std::vector<int32_t> ids, const Seq2SeqOptions& options) {
    const auto last = static_cast<int64_t>(ids.size());
    ids.push_back(options.start);  // placeholder for the next token, which is not read
    const auto data = make_seq2seq_dataset({{source}, {seq2seq_target(std::move(ids), options)}}, {"the prompt"},
                                           tokenizer_, inputs_, kLengthStep, options);
    return logits_at(*data, last);
  }

 private:
  std::vector<float> logits_at(const Dataset& data, int64_t place) {
    const int64_t first = 0;
    const HostTensor out = session_.forward(outputs_, data.batch({&first, 1}).inputs).at(logits_).cast(DType::f32);
    if (out.rank() != 3 || out.dims()[1] <= place)
      fail(Exit::usage, "E_TASK", cat("the output '", printable(logits_), "' has no logits of each token"),
           "generate needs logits of each next token, (batch, length, vocabulary)");
    const int64_t words = out.dims()[2];
    const float* const at = out.as<float>() + place * words;
    return {at, at + words};
  }

  std::string logits_;
  std::vector<int> outputs_;
  const Tokenizer& tokenizer_;
  Session session_;
  std::vector<InputSpec> inputs_;
  int64_t fixed_;
};

std::vector<int32_t> ids_of(const std::string& prompt, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(prompt).ids;
  const SpecialIds& special = tokenizer.special();
  if (ids.empty() && special.bos >= 0) ids = {special.bos};
  if (ids.empty() && special.eos >= 0) ids = {special.eos};
  if (ids.empty())
    fail(Exit::usage, "E_USAGE", "an empty prompt, and the vocabulary has no token that a text begins with",
         "give `prompt` at least a word");
  return ids;
}

void require_places(const SourceGraph& g, const std::vector<int>& outputs, int64_t fixed, int64_t longest) {
  if (fixed == 0) return require_length(g, outputs, longest);
  if (longest > fixed)
    fail(Exit::usage, "E_SEQ_LEN", cat("prompt and new tokens are ", longest, ", the model takes ", fixed),
         "lower `max_new_tokens`");
}

}  // namespace

int32_t choose_token(std::span<const float> logits, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place) {
  const auto n = static_cast<int64_t>(logits.size());
  const int64_t best = argmax_rows(logits.data(), 1, n)[0];
  if (best < 0)
    fail(Exit::numerical, "E_NOT_FINITE", "a logit of the next token is NaN",
         "are the weights of a run that diverged?");
  if (!how.draw) return static_cast<int32_t>(best);
  std::vector<float> sorted(logits.begin(), logits.end());
  const int64_t kept = how.top_k > 0 ? std::min(how.top_k, n) : n;
  std::nth_element(sorted.begin(), sorted.begin() + (kept - 1), sorted.end(), std::greater<>());
  const float least = sorted[static_cast<size_t>(kept - 1)];
  const double top = logits[static_cast<size_t>(best)];
  std::vector<double> upto(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    upto[i] = sum += logits[i] >= least ? std::exp((static_cast<double>(logits[i]) - top) / how.temperature) : 0;
  const PhiloxBlock b = philox(seed, text, place);
  const double u = static_cast<double>((uint64_t{b.v[0]} << 32 | b.v[1]) >> 11) * 0x1p-53;
  const auto at = std::upper_bound(upto.begin(), upto.end(), u * sum);
  return at == upto.end() ? static_cast<int32_t>(best) : static_cast<int32_t>(at - upto.begin());
}

std::vector<GeneratedText> generate(const RunSpec& given, const std::vector<std::string>& prompts,
                                    int64_t max_new_tokens, const Sampling& how, const Log& log) {
  set_threads(given.device, log);
  const RunSpec asked = with_run(given, log);
  Imported model = open_model(asked, Job::generate, log);
  const SourceGraph& g = model.graph;
  const ModelRecord record = recorded(*model.doc);
  const RunSpec spec = with_recorded(with_letters(asked, Log()), record, Log());
  const Task task = requested_task(spec.objective) != Task::none ? requested_task(spec.objective)
                    : record.task == Task::none                  ? Task::language
                                                                 : record.task;
  const std::string logits = logits_of(spec, g, task);
  const std::vector<int> outputs = {g.find(logits)};
  require_known_operators(g, outputs);
  log_fixed_shapes(fix_shapes(model.graph, outputs), log);
  check_vocabulary(spec, g, needed_inputs(g, outputs), log);
  check_tokenizer(spec, record, log);
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(spec);
  NextToken next(spec, g, logits, *tokenizer, log);
  release_parameters(model);
  std::vector<GeneratedText> out;
  std::optional<Seq2SeqOptions> seq2seq;
  if (task_rule(task).text == TextForm::source_and_target) {
    seq2seq = seq2seq_options(spec, *tokenizer);
    seq2seq->max_target = max_new_tokens + 1;
  }
  for (const std::string& prompt : prompts) {
    GeneratedText t;
    LabeledText source;
    if (seq2seq)
      source = seq2seq_source(prompt, *tokenizer, *seq2seq);
    else
      t.ids = ids_of(prompt, *tokenizer);
    const auto before = static_cast<int64_t>(t.ids.size()), most = before + max_new_tokens;
    require_places(g, outputs, next.fixed(), std::max(most, static_cast<int64_t>(source.encoding.ids.size())));
    while (!t.ended && t.fresh < max_new_tokens) {
      const std::vector<float> x = seq2seq ? next.logits(source, t.ids, *seq2seq) : next.logits(t.ids, most);
      const int32_t id =
          choose_token(x, how, static_cast<uint64_t>(spec.device.seed), out.size(), static_cast<uint64_t>(t.fresh));
      t.ids.push_back(id);
      ++t.fresh;
      t.ended = id == tokenizer->special().eos;
    }
    t.text = tokenizer->decode(t.ids);
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace amp
