// The verb generate: greedy or sampled text from a causal or an encoder-decoder model. A causal model whose file has
// key/value caches computes one position per token (cached_decoder.h), others the whole text (next_token.h).
#include "run/evaluate/generate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/activity.h"
#include "base/error.h"
#include "base/text.h"
#include "run/data/data.h"
#include "run/data/language_data.h"
#include "run/data/prompts.h"
#include "run/data/text_rows.h"
#include "run/data/tokenize.h"
#include "run/evaluate/cached_decoder.h"
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
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

std::string logits_of(RunSpec spec, const SourceGraph& g, Task task) {
  const std::vector<LossSpec> asked = requested_losses(spec.objective).parts;
  const bool own = std::any_of(asked.begin(), asked.end(), [](const LossSpec& s) {
    return loss_rule(s.kind).own_output || loss_rule(s.kind).teacher;
  });
  // If the model computes this loss itself, its logits are a separate output. A loss with a teacher cannot be used
  // without that teacher.
  if (own) spec.objective.loss = RunSpec::Texts{};
  const Objective objective = task_rule(task).writes_text() ? choose_objective(spec, g, {}, task, Log()) : Objective{};
  const LossSpec* const loss = measured_loss(objective);
  if (!loss || (task_rule(task).text == TextForm::own_tokens && !loss_rule(loss->kind).next_token))
    fail(Exit::usage, "E_TASK", "the model says of itself that it is no causal language model",
         "generate needs logits of each next token, (batch, length, vocabulary); `task` language and `task` seq2seq "
         "train such models");
  return loss->values().front();
}

// Runs one model on prompts.
class Generator {
 public:
  Generator(const RunSpec& given, const std::vector<std::string>& prompts, const GenerateOptions& options,
            const Log& log);
  std::vector<GeneratedText> run();

 private:
  struct Model {
    Imported imported;
    RunSpec spec;
    Task task;
    std::string logits;
    bool low = false;
  };
  struct Prompt {
    std::vector<int32_t> ids;
    LabeledText source;  // prompt of an encoder-decoder model; `ids` is then empty
  };
  static Model open(const RunSpec& given, const Log& log);
  Prompt encode(const std::string& prompt) const;
  void require_places(int64_t longest) const;
  GeneratedText continued(const Prompt& prompt, uint64_t index, Activity& generating);

  const GenerateOptions options_;
  Model model_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::set<int32_t> ends_;
  std::shared_ptr<const ChatTemplate> chat_;
  std::optional<Seq2SeqOptions> seq2seq_;
  const std::vector<InputSpec> inputs_;
  std::vector<Prompt> prompts_;
  std::unique_ptr<Session> session_;
  std::optional<NextToken> whole_;
  std::optional<CachedDecoder> next_;
};

Generator::Model Generator::open(const RunSpec& given, const Log& log) {
  const RunSpec asked = with_run(given, log);
  Model m{open_model(asked, Job::generate, log), asked, Task::language, "", false};
  const SourceGraph& g = m.imported.graph;
  const ModelRecord record = recorded(*m.imported.doc);
  m.spec = with_recorded(with_letters(asked, Log()), record, Log());
  if (requested_task(m.spec.objective) != Task::none)
    m.task = requested_task(m.spec.objective);
  else if (record.task != Task::none)
    m.task = record.task;
  m.logits = logits_of(m.spec, g, m.task);
  const std::vector<int> outputs = {g.find(m.logits)};
  require_known_operators(g, outputs);
  log_fixed_shapes(fix_shapes(m.imported.graph, outputs), log);
  check_vocabulary(m.spec, g, needed_inputs(g, outputs), log);
  check_tokenizer(m.spec, record, log);
  return m;
}

Generator::Generator(const RunSpec& given, const std::vector<std::string>& prompts, const GenerateOptions& options,
                     const Log& log)
    : options_(options),
      model_(open(given, log)),
      tokenizer_(tokenizer_of(model_.spec)),
      ends_(end_tokens(model_.spec, *tokenizer_)),
      inputs_(input_specs(model_.imported.graph,
                          needed_inputs(model_.imported.graph, {model_.imported.graph.find(model_.logits)}))) {
  SourceGraph& g = model_.imported.graph;
  const RunSpec& spec = model_.spec;
  if (task_rule(model_.task).text == TextForm::source_and_target) {
    seq2seq_ = seq2seq_options(spec, *tokenizer_);
    seq2seq_->max_target = options.max_new_tokens + 1;
  } else if (options.chat) {
    chat_ = chat_template_of(spec, *tokenizer_);
  }
  // Lengths are checked before feed_caches() below, while the graph still computes whole texts.
  for (const std::string& p : prompts) {
    prompts_.push_back(encode(p));
    const auto source = static_cast<int64_t>(prompts_.back().source.encoding.ids.size());
    require_places(std::max(static_cast<int64_t>(prompts_.back().ids.size()) + options.max_new_tokens, source));
  }
  const PrecisionPlan plan = choose_plan(spec.precision, Job::generate, g, log);
  const SessionOptions how = session_options(spec, Job::generate, plan, log);
  DecoderCaches caches = seq2seq_ || !options.use_cache ? DecoderCaches() : model_.imported.caches;
  if (seq2seq_ && !model_.imported.caches.parts.empty())
    log.note("caches of keys and values are empty: each token of an encoder-decoder model computes the whole target");
  Tensors empty = empty_caches(g, caches);
  feed_caches(g, caches);
  session_ = std::make_unique<Session>(g, how);
  whole_.emplace(*session_, model_.logits, *tokenizer_, inputs_, std::move(empty));
  next_.emplace(*session_, *whole_, std::move(caches), plan.any_low(), log);
  release_parameters(model_.imported);
}

Generator::Prompt Generator::encode(const std::string& prompt) const {
  if (seq2seq_) return {{}, seq2seq_source(prompt, *tokenizer_, *seq2seq_)};
  return {options_.chat ? chat_prompt_ids(prompt, *tokenizer_, chat_.get()) : prompt_ids(prompt, *tokenizer_), {}};
}

void Generator::require_places(int64_t longest) const {
  const SourceGraph& g = model_.imported.graph;
  require_generated_length(g, g.find(model_.logits), fixed_length(inputs_), longest, "lower `max_new_tokens`",
                           "lower `max_new_tokens`, or shorten the prompt");
}

std::vector<GeneratedText> Generator::run() {
  std::vector<GeneratedText> out;
  Activity generating("generating", "tokens", std::ssize(prompts_) * options_.max_new_tokens);
  for (const Prompt& p : prompts_) out.push_back(continued(p, out.size(), generating));
  return out;
}

GeneratedText Generator::continued(const Prompt& prompt, uint64_t index, Activity& generating) {
  GeneratedText t;
  t.ids = prompt.ids;
  const auto before = static_cast<int64_t>(t.ids.size()), most = before + options_.max_new_tokens;
  std::vector<int32_t> seen = t.ids;  // the ids that a repetition penalty counts
  if (seq2seq_) seen = {seq2seq_->start};
  while (!t.ended && t.fresh < options_.max_new_tokens) {
    const std::vector<float> x =
        seq2seq_ ? whole_->logits(prompt.source, t.ids, *seq2seq_) : next_->logits(t.ids, most);
    const int32_t id = choose_token(x, options_.sampling, static_cast<uint64_t>(model_.spec.device.seed), index,
                                    static_cast<uint64_t>(t.fresh), seen);
    t.ids.push_back(id);
    seen.push_back(id);
    ++t.fresh;
    generating.reach(static_cast<int64_t>(index) * options_.max_new_tokens + t.fresh);
    t.ended = ends_.count(id) > 0;
  }
  t.text = tokenizer_->decode(t.ids);
  t.answer = tokenizer_->decode(std::span(t.ids).subspan(static_cast<size_t>(before)));
  return t;
}

}  // namespace

std::vector<GeneratedText> generate(const RunSpec& given, const std::vector<std::string>& prompts,
                                    const GenerateOptions& options, const Log& log) {
  set_threads(given.device, log);
  return Generator(given, prompts, options, log).run();
}

}  // namespace amp
