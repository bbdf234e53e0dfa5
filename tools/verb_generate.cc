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
  const Sampling how{opts.flag("sample"), spec.objective.temperature, spec.data.text.top_k};
  for (const char* name : {"temperature", "top_k"}) {
    if (!how.draw && opts.was_set(name))
      console.log().warning(cat("--", name, " has no effect without --sample: the likeliest token is taken"));
  }
  const auto texts = generate(spec, prompts, opts.integer("max_new_tokens"), how, console.log());
  for (size_t i = 0; i < texts.size(); ++i) {
    const GeneratedText& t = texts[i];
    if (opts.flag("json")) {
      const nlohmann::ordered_json line{
          {"prompt", prompts[i]}, {"text", t.text}, {"ids", t.ids}, {"new_tokens", t.fresh}, {"ended", t.ended}};
      std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    } else {
      std::cout << t.text << '\n';
    }
  }
  return 0;
}

static const RegisterVerb generate_verb(cli::Verb::generate, run_generate);

}  // namespace amp
