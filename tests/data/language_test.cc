// Texts for language models, against transformers, tokenizers and TRL (make_language_golden.py).
#include "data/language/language.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/reader.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using Ints = std::vector<int64_t>;
using nlohmann::ordered_json;

namespace {

const std::string kFolder = test::test_data("data/language/");

ordered_json read_golden(const std::string& name) {
  std::ifstream in(kFolder + name);
  REQUIRE(in.good());
  return ordered_json::parse(in);
}

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> t = open_tokenizer(kFolder + "tokenizer.json");
  return *t;
}

std::shared_ptr<const ChatTemplate> template_of(const ordered_json& golden, const std::string& name) {
  const ordered_json& t = golden["templates"][name];
  std::map<std::string, std::string> specials;
  for (const auto& [token, text] : t["specials"].items()) specials[token] = text;
  return std::make_shared<ChatTemplate>(t["source"].get<std::string>(), name, specials);
}

Table rows_of(const std::string& text, const std::string& name = "chats.jsonl") {
  const test::TempDir dir;
  std::ofstream(dir / name) << text;
  return Table::read(dir / name);
}

// Returns 1 for positions with a label.
Ints mask_of(const LabeledText& t) {
  Ints out;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (t.labels[i] != kIgnoreIndex) CHECK(t.labels[i] == t.encoding.ids[i]);
    out.push_back(t.labels[i] != kIgnoreIndex);
  }
  return out;
}

template <class F>
std::pair<std::string, std::string> refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.id(), e.fact()};
  }
  return {"none", ""};
}

Ints ids_of(const LabeledText& t) { return {t.encoding.ids.begin(), t.encoding.ids.end()}; }

LabeledText text_of(const Ints& ids) {
  LabeledText t;
  t.encoding.ids.assign(ids.begin(), ids.end());
  t.encoding.types.assign(ids.size(), 0);
  t.labels = ids;
  return t;
}

}  // namespace

TEST_CASE("conversations are apply_chat_template's texts, ids and assistant masks") {
  const ordered_json golden = read_golden("chat.json");
  int texts = 0, masks = 0;
  for (const ordered_json& c : golden["cases"]) {
    const std::string name = c["template"];
    const size_t chat = c["chat"];
    CAPTURE(name, chat);
    const auto shared = template_of(golden, name);
    const ordered_json& messages = golden["chats"][chat];
    if (c.contains("refused")) {
      CHECK(refusal([&] { shared->render(messages, false); }).first == "E_CHAT_TEMPLATE");
      continue;
    }
    ordered_json prompt = messages;
    prompt.erase(prompt.size() - 1);
    CHECK(shared->render(messages, false).text == c["text"].get<std::string>());
    CHECK(shared->render(prompt, true).text == c["prompt"].get<std::string>());
    ++texts;
    const Table table = rows_of(ordered_json{{"messages", messages}}.dump());
    LanguageOptions options;
    options.columns = {"messages"};
    LabeledText all;
    options.loss_on = LossOn::all;
    all = LanguageReader(table, tokenizer(), shared, options).read(0);
    CHECK(ids_of(all) == c["ids"].get<Ints>());
    if (!shared->marks_answers()) {
      options.loss_on = LossOn::last_answer;
      CHECK(mask_of(LanguageReader(table, tokenizer(), shared, options).read(0)) == c["last"].get<Ints>());
    }
    if (!c.contains("mask")) continue;
    options.loss_on = LossOn::answers;
    const LabeledText t = LanguageReader(table, tokenizer(), shared, options).read(0);
    CHECK(mask_of(t) == c["mask"].get<Ints>());
    ++masks;
  }
  CHECK(texts == 128);
  CHECK(masks == 100);
}

TEST_CASE("what is learnt of a conversation") {
  const ordered_json golden = read_golden("chat.json");
  const auto chat = template_of(golden, "qwen2_5");
  const std::string two =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}])";
  const auto learnt = [&](const Table& table, std::vector<std::string> columns, LossOn on) {
    LanguageOptions options;
    options.columns = std::move(columns);
    options.loss_on = on;
    const LabeledText t = LanguageReader(table, tokenizer(), chat, options).read(0);
    std::vector<int32_t> ids;
    for (const int64_t l : t.labels) {
      if (l != kIgnoreIndex) ids.push_back(static_cast<int32_t>(l));
    }
    return tokenizer().decode(ids, true);
  };
  const Table messages = rows_of(cat(R"({"messages":)", two, "}"));
  CHECK(learnt(messages, {"messages"}, LossOn::answers) == "b<|im_end|>\nd<|im_end|>\n");
  CHECK(learnt(messages, {"messages"}, LossOn::last_answer) == "d<|im_end|>\n");
  const Table parted = rows_of(
      R"({"prompt":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"completion":[{"role":"assistant","content":"d"}]})");
  CHECK(learnt(parted, {"prompt", "completion"}, LossOn::answers) == "d<|im_end|>\n");
  const Table share = rows_of(R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})");
  CHECK(learnt(share, {"conversations"}, LossOn::answers) == "b<|im_end|>\n");
  const Table texts = rows_of(R"({"prompt":"one two","completion":" three"})");
  CHECK(learnt(texts, {"prompt", "completion"}, LossOn::answers) ==
        cat(" three", tokenizer().token(tokenizer().special().eos)));
  CHECK(learnt(texts, {"prompt", "completion"}, LossOn::all) ==
        cat("one two three", tokenizer().token(tokenizer().special().eos)));
}

TEST_CASE("rows that are no conversations are refused with their place") {
  const ordered_json golden = read_golden("chat.json");
  const auto chat = template_of(golden, "gemma3");
  const auto read = [&](const std::string& row, std::shared_ptr<const ChatTemplate> with) {
    const Table table = rows_of(cat("\n", row));
    LanguageOptions options;
    options.columns = {"messages"};
    auto [id, fact] = refusal([&] { LanguageReader(table, tokenizer(), with, options).read(0); });
    if (id != "none") CHECK(fact.find("chats.jsonl:2") != std::string::npos);
    return cat(id, ": ", fact.substr(fact.rfind("chats.jsonl:2")));
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(read(R"({"messages":[]})", chat), ContainsSubstring("there are no messages"));
  CHECK_THAT(read(R"({"messages":["a"]})", chat), ContainsSubstring("message 1 is no object"));
  CHECK_THAT(read(R"({"messages":[{"role":"user","content":"a"},{"content":"b"}]})", chat),
             ContainsSubstring("message 2 has no \"role\""));
  CHECK_THAT(read(R"({"messages":[{"role":"user","content":5}]})", chat), ContainsSubstring("is no text"));
  CHECK_THAT(read(R"({"messages":[{"role":"user"}]})", chat), ContainsSubstring("has no \"content\""));
  CHECK_THAT(read(R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})", chat),
             ContainsSubstring("must alternate"));
  CHECK_THAT(read(R"({"messages":[{"role":"user","content":"a"}]})", nullptr), ContainsSubstring("E_CHAT_TEMPLATE"));
}

TEST_CASE("range() ends where its next element is no 64-bit number") {
  const auto render = [](const std::string& source) {
    return ChatTemplate(source, "t", {}).render(ordered_json::array(), false).text;
  };
  CHECK(render("{{ range(9223372036854775806, 9223372036854775807, 5)|length }}") == "1");
  CHECK(render("{{ range(-9223372036854775806, -9223372036854775807, -5)|length }}") == "1");
  CHECK(render("{{ range(0, 9223372036854775807, 4611686018427387904)|length }}") == "2");
}

TEST_CASE("templates that are none, or ask for too much, are refused") {
  const auto parse = [](const std::string& source) {
    return refusal([&] { ChatTemplate(source, "t", {}).render(ordered_json::array(), false); });
  };
  CHECK(parse("{% for m in messages %}").first == "E_CHAT_TEMPLATE");
  CHECK(parse("{{ 1 +").first == "E_CHAT_TEMPLATE");
  CHECK(parse("{{ " + std::string(5000, '(') + " }}").first == "E_CHAT_TEMPLATE");
  CHECK(parse("{{ " + std::string(300000, ' ') + " }}").first == "E_CHAT_TEMPLATE");
  CHECK(parse("{% for i in range(1000000000) %}{% endfor %}").second.find("range() of more") != std::string::npos);
  CHECK(parse("{{ raise_exception('not so') }}").second.find("not so") != std::string::npos);
  CHECK(parse("{% generation %}").first == "none");
}

TEST_CASE("a hostile template ends its helper process only, within the limits of time and memory") {
  const auto times = [](std::string_view part, int n) {
    std::string out;
    while (n-- > 0) out += part;
    return out;
  };
  const auto chain = [&](std::string_view head, std::string_view part) {
    return cat("{{ ", head, times(part, 8000), " }}");
  };
  const std::string loops = times("{% for i in range(2) %}", 8000) + times("{% endfor %}", 8000);
  const std::string templates[] = {
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(x) %}{% if x %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
      "{% set x = [] %}{{ x.append(x) }}{{ x }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{{ 'a' * 4000000000 }}",
      "{{ 'a'|indent(1000000000) }}",
      chain("", "not ") + "a",
      chain("'a'", " + 'a'"),
      chain("a", ".a"),
      chain("a", "|upper"),
      chain("", "1 if false else "),
      chain("", "("),
      loops,
  };
  for (const std::string& source : templates) {
    CAPTURE(source.substr(0, 60));
    const ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "a"}])");
    const auto [id, fact] = refusal([&] { ChatTemplate(source, "t.jinja", {}).render(messages, false); });
    // A chain that fits into the stack may be rendered.
    if (id == "none") continue;
    CHECK(id == "E_CHAT_TEMPLATE");
    CHECK(fact.starts_with("the chat template of 't.jinja': "));
  }
}

TEST_CASE("the error of a template has the reason and its place") {
  const auto fact = [](const std::string& source) {
    return refusal([&] {
             ChatTemplate(source, "t", {}).render(ordered_json::parse(R"([{"role": "user", "content": "a"}])"), false);
           })
        .second;
  };
  CHECK(fact("{{ raise_exception('roles must alternate') }}") ==
        "the chat template of 't': roles must alternate (line 1, column 19)");
  CHECK(fact("{{ messages[0].content }}\n{{ 1|fooo }}").starts_with("the chat template of 't': "));
  CHECK(fact("{{ messages[0].content }}\n{{ 1|fooo }}").find("fooo") != std::string::npos);
}

TEST_CASE("a template that exceeded its limits is not rendered again") {
  const ChatTemplate t("{% macro f() %}{{ f() }}{% endmacro %}{% if messages %}{{ f() }}{% endif %}", "t", {});
  const ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "a"}])");
  const auto first = refusal([&] { t.render(messages, false); });
  CHECK(first.first == "E_CHAT_TEMPLATE");
  CHECK(refusal([&] { t.render(ordered_json::array(), false); }) == first);
}

TEST_CASE("sequences are run_clm's windows and TRL's packed ones") {
  const ordered_json golden = read_golden("packing.json");
  for (const auto& [stride, windows] : golden["windows"].items()) {
    CAPTURE(stride);
    const Table table = rows_of(ordered_json{{"text", golden["text"]}}.dump());
    LanguageOptions options;
    options.columns = {"text"};
    options.max_seq_len = 20;
    options.packing = TextPacking::stride;
    options.stride = std::stoi(stride);
    const LanguageTexts out = encode_language(table, tokenizer(), nullptr, options);
    REQUIRE(out.texts.size() == windows.size());
    Ints learnt;
    for (size_t i = 0; i < out.texts.size(); ++i) {
      CHECK(ids_of(out.texts[i]) == windows[i].get<Ints>());
      for (const int32_t l : out.texts.labels(i)) {
        if (l != kIgnoreIndex) learnt.push_back(l);
      }
    }
    const std::vector<int32_t> all = tokenizer().tokenize(golden["text"].get<std::string>());
    CHECK(learnt == Ints(all.begin(), all.end()));  // each token once
  }
  std::vector<LabeledText> texts;
  for (const ordered_json& t : golden["texts"]) texts.push_back(text_of(t.get<Ints>()));
  const LabeledTexts bfd = pack_texts(texts, golden["length"]), wrapped = wrap_texts(texts, golden["length"]);
  REQUIRE(bfd.size() == golden["bfd"].size());
  for (size_t i = 0; i < bfd.size(); ++i) {
    CHECK(ids_of(bfd[i]) == golden["bfd"][i].get<Ints>());
    Ints lengths;
    int32_t from = 0;
    const LabeledText sequence = bfd[i];
    for (const int32_t r : sequence.restarts) lengths.push_back(r - std::exchange(from, r));
    lengths.push_back(bfd.length(i) - from);
    CHECK(lengths == golden["bfd_lengths"][i].get<Ints>());
    CHECK(sequence.labels[0] == kIgnoreIndex);
    for (const int32_t r : sequence.restarts) CHECK(sequence.labels[static_cast<size_t>(r)] == kIgnoreIndex);
  }
  REQUIRE(wrapped.size() == golden["wrapped"].size());
  for (size_t i = 0; i < wrapped.size(); ++i) CHECK(ids_of(wrapped[i]) == golden["wrapped"][i].get<Ints>());
}

TEST_CASE("texts in one sequence have positions and a mask of their own") {
  LabeledText packed = text_of({10, 11, 12, 13, 14});
  packed.restarts = {2};
  TextOptions options;
  options.labels = LabelForm::ids;
  options.pad_to_multiple = 6;
  const std::vector<InputSpec> inputs = {{"input_ids", DType::i64, Dims{-1, -1}},
                                         {"position_ids", DType::i64, Dims{-1, -1}},
                                         {"attention_mask", DType::boolean, Dims{-1, 1, -1, -1}}};
  const auto data = make_labeled_dataset({text_of({1, 2, 3}), packed}, {"t"}, tokenizer(), inputs, options);
  data->check_label_range(15);
  test::expect_error("E_DATA_TOKEN_RANGE", "the token 14 is a label, the model has logits of 14 tokens",
                     [&] { data->check_label_range(14); });
  const std::vector<int64_t> both = {0, 1};
  const Batch b = data->batch(both);
  CHECK(b.inputs.at("position_ids").to_ints() == Ints{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2, 5});
  CHECK(b.inputs.at("attention_mask").dims() == Dims{2, 1, 6, 6});
  const Ints mask = b.inputs.at("attention_mask").to_ints();
  for (int64_t s = 0; s < 2; ++s) {
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        const int64_t length = s == 0 ? 3 : 5;
        const bool together = s == 0 || (i < 2) == (j < 2);
        CAPTURE(s, i, j);
        CHECK(mask[static_cast<size_t>((s * 6 + i) * 6 + j)] == (i == j || (i < length && j < i && together)));
      }
    }
  }
}
