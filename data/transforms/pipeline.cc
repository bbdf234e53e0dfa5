#include "data/transforms/pipeline.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "data/rows_by_name.h"

namespace amp {

namespace {

std::vector<TransformRow>& registered() {
  static std::vector<TransformRow> all;
  return all;
}

const TransformRow& row_named(const std::string& name) {
  std::vector<std::string> names;
  for (const TransformRow* r : transform_rows()) {
    if (r->name == name) return *r;
    names.push_back(r->name);
  }
  const std::string near = nearest(name, names);
  fail(Exit::usage, "E_TRANSFORM",
       cat("no transform is called '", printable(name), "'; there are: ", join(names, ", ")),
       near.empty() ? "" : cat("is '", near, "' meant?"));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

TransformRegistration::TransformRegistration(TransformRow row) { registered().push_back(std::move(row)); }

const std::vector<const TransformRow*>& transform_rows() {
  static const std::vector<const TransformRow*> sorted = rows_by_name(registered());
  return sorted;
}

Pipeline::Pipeline(const std::string& text) {
  bool numbers = false;
  const auto add = [&](const TransformRow& row, std::vector<std::string> words) {
    steps_.push_back(row.make(Arguments(row.name, words, row.parameters)));
    numbers |= row.stage != Stage::pixels;
  };
  for (const std::string& part : split(text, '|')) {
    std::vector<std::string> words = words_of(part);
    if (words.empty() || words == std::vector<std::string>{"none"}) continue;
    const std::string name = words[0];
    const TransformRow& row = row_named(name);
    if (numbers && row.stage != Stage::numbers)
      fail(Exit::usage, "E_TRANSFORM", cat("transform ", name, " works on pixels, which have become numbers before it"),
           cat("put it further to the front"));
    if (!numbers && row.stage == Stage::numbers) add(row_named("to_tensor"), {});
    text_ += (text_.empty() ? "" : " | ") + join(words, " ");
    words.erase(words.begin());
    add(row, words);
    random_ |= row.random;
  }
  if (!numbers) add(row_named("to_tensor"), {});
  if (text_.empty()) text_ = "none";
}

NumberRange Pipeline::range() const {
  NumberRange r;
  for (const auto& s : steps_) r = s->range(r);
  return r;
}

void Pipeline::apply(ImageSample& sample, Draws& draws) const {
  for (const auto& s : steps_) s->apply(sample, draws);
}

}  // namespace amp
