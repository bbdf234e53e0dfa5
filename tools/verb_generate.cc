// Verb generate: continues prompts with a causal language model.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "run/evaluate/generate.h"
#include "run/spec/spec.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

static int run_generate(const cli::Options& opts, const Console& console) {
  const RunSpec spec = spec_of(opts);
  const std::vector<std::string>& prompts = opts.list("prompt");
  GenerateOptions options;
  options.max_new_tokens = opts.integer("max_new_tokens");
  options.chat = opts.flag("chat");
  options.use_cache = opts.flag("use_cache");
  options.sampling = {opts.flag("sample"), spec.objective.temperature, spec.data.text.top_k, opts.num("top_p"),
                      opts.num("repetition_penalty")};
  for (const char* name : {"temperature", "top_k", "top_p"}) {
    if (!options.sampling.draw && opts.was_set(name))
      console.log().warning(cat("--", name, " has no effect without --sample: the likeliest token is taken"));
  }
  const auto texts = generate(spec, prompts, options, console.log());
  for (size_t i = 0; i < texts.size(); ++i) {
    const GeneratedText& t = texts[i];
    if (opts.flag("json")) {
      const nlohmann::ordered_json line{{"prompt", prompts[i]}, {"text", t.text},        {"answer", t.answer},
                                        {"ids", t.ids},         {"new_tokens", t.fresh}, {"ended", t.ended}};
      std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    } else {
      std::cout << (options.chat ? t.answer : t.text) << '\n';
    }
  }
  return 0;
}

static const RegisterVerb generate_verb(cli::Verb::generate, run_generate);

}  // namespace amp
