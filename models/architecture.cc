// Implements the registry of architectures, and the mapping between heads and Hugging Face's class names. Static
// registration in models/architectures/ fills the table before main().
#include "models/architecture.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

struct HeadRow {
  Head head;
  std::string_view name, suffix;  // suffix: the end of a class name
};
constexpr HeadRow kHeads[] = {{Head::none, "none", "Model"},
                              {Head::sequence_classification, "sequence_classification", "ForSequenceClassification"},
                              {Head::token_classification, "token_classification", "ForTokenClassification"},
                              {Head::question_answering, "question_answering", "ForQuestionAnswering"},
                              {Head::masked_lm, "masked_lm", "ForMaskedLM"},
                              {Head::causal_lm, "causal_lm", "LMHeadModel"},
                              {Head::causal_lm, "causal_lm", "ForCausalLM"},
                              {Head::image_classification, "image_classification", "ForImageClassification"}};

std::vector<const Architecture*>& table() {
  static std::vector<const Architecture*> rows;
  return rows;
}

Head among(const Architecture& a, Head h, std::string_view asked) {
  if (std::find(a.heads.begin(), a.heads.end(), h) != a.heads.end()) return h;
  std::vector<std::string> names;
  for (const Head known : a.heads) names.emplace_back(name_of(known));
  fail(Exit::unsupported, "E_ARCHITECTURE", cat(a.name, " is not built as '", printable(std::string(asked)), "'"),
       cat("it is built with: ", join(names, ", ")));
}

}  // namespace

std::string_view name_of(Head h) {
  return std::find_if(std::begin(kHeads), std::end(kHeads), [&](const HeadRow& r) { return r.head == h; })->name;
}

RegisterArchitecture::RegisterArchitecture(Architecture a) {
  static std::vector<std::unique_ptr<Architecture>> owned;
  owned.push_back(std::make_unique<Architecture>(std::move(a)));
  auto& rows = table();
  rows.insert(std::upper_bound(rows.begin(), rows.end(), owned.back().get(),
                               [](const Architecture* x, const Architecture* y) { return x->name < y->name; }),
              owned.back().get());
}

const std::vector<const Architecture*>& architectures() { return table(); }

const Architecture& architecture(std::string_view model_type) {
  std::vector<std::string> names;
  for (const Architecture* a : table()) {
    if (a->name == model_type) return *a;
    for (const std::string_view t : a->other_types) {
      if (t == model_type) return *a;
      names.emplace_back(t);
    }
    names.emplace_back(a->name);
  }
  std::sort(names.begin(), names.end());
  const std::string close = nearest(model_type, names);
  fail(Exit::unsupported, "E_ARCHITECTURE",
       cat("models of type '", printable(std::string(model_type)), "' are not built"),
       cat(close.empty() ? std::string() : cat("did you mean '", close, "'? "), "known are ", join(names, ", ")));
}

Head head_of_class(const Architecture& a, std::string_view class_name) {
  for (const HeadRow& r : kHeads) {
    if (r.head != Head::none && class_name.ends_with(r.suffix)) return among(a, r.head, class_name);
  }
  if (class_name.ends_with("Model") && class_name.find("For") == std::string_view::npos)
    return among(a, Head::none, class_name);
  return among(a, static_cast<Head>(-1), class_name);
}

Head head_from_name(const Architecture& a, std::string_view name) {
  for (const HeadRow& r : kHeads) {
    if (r.name == name) return among(a, r.head, name);
  }
  return among(a, static_cast<Head>(-1), name);
}

}  // namespace amp
