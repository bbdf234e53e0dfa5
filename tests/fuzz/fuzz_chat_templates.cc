// Fuzzes chat templates, which are parsed and rendered for a conversation with tools: twice by ChatEngine::render(),
// and as in render_conversation(). The third-party engine limits neither depth nor steps and cannot be interrupted. So
// the engine runs, as in the product, in a helper process with limits (base/limited_process.h), which returns its
// coverage (child_coverage.h). An input must be answered or refused within these limits; a memory error in the helper
// is a finding. A helper handles many inputs, because a fork takes longer than an input.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/limited_process.h"
#include "data/language/conversation.h"
#include "fuzz/child_coverage.h"
#include "fuzz/fuzz.h"

namespace {

using namespace amp;
using nlohmann::ordered_json;

// Limit of time for all inputs of a helper together. An endless template takes at most this time.
const ProcessLimits kLimits{.seconds = 0.25, .seconds_per_step = 0, .seconds_per_byte = 0};
constexpr int kInputsPerHelper = 50;

std::string use_template(std::string_view source) {
  static const ordered_json messages = ordered_json::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": " a\n"},
          {"role": "assistant", "content": "<b>", "tool_calls": [{"type": "function", "function":
           {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}, {"role": "tool", "content": "3"},
          {"role": "user", "content": "c"}, {"role": "assistant", "content": "\u00e9"}])");
  static const ordered_json tools = ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"x": {"type": "array"}}}}])");
  fuzz::begin_child_coverage();
  fuzz::accepts_or_refuses([&] {
    const ChatEngine engine(std::string(source), "fuzz", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    for (const bool prompt : {false, true}) {
      fuzz::accepts_or_refuses([&] {
        const RenderedChat chat = engine.render(messages, prompt, prompt ? tools : ordered_json());
        for (const auto& [begin, end] : chat.answers)
          fuzz::must(begin < end && end <= chat.text.size(), "an answer lies outside the text");
      });
    }
    const RenderedChat chat = render_conversation(engine, messages, tools, LossOn::answers);
    for (const auto& [begin, end] : chat.answers)
      fuzz::must(begin <= end && end <= chat.text.size(), "an answer lies outside the text");
  });
  fuzz::end_child_coverage();
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::unique_ptr<LimitedProcess> helper;
  static int inputs = 0;
  if (!helper || ++inputs > kInputsPerHelper) {
    fuzz::share_coverage();
    helper.reset();
    helper = std::make_unique<LimitedProcess>(
        [watched = false](std::string_view source) mutable {
          if (!watched) fuzz::watch_child_faults();
          watched = true;
          return use_template(source);
        },
        kLimits);
    inputs = 0;
  }
  const LimitedProcess::Reply reply = helper->ask(fuzz::text(data, size));
  fuzz::require_no_child_fault();
  if (reply.outcome == LimitedProcess::Outcome::answered) {
    fuzz::add_child_coverage();
  } else {
    helper.reset();
  }
  return 0;
}
