// Parses a pipeline's text into transforms and applies them. text_for() rewrites the text for another image size;
// TransformRow::sized computes the values that change.
#include "data/transforms/pipeline.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "data/rows_by_name.h"

namespace amp {

namespace {

std::vector<TransformRow>& transforms() {
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

TransformRegistration::TransformRegistration(TransformRow row) { transforms().push_back(std::move(row)); }

const std::vector<const TransformRow*>& transform_rows() {
  static const std::vector<const TransformRow*> sorted = rows_by_name(transforms());
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

int64_t SizeChange::height(int64_t n) const {
  return std::max<int64_t>(
      1, std::llround(static_cast<double>(n * to.height) / static_cast<double>(std::max<int64_t>(1, from.height))));
}
int64_t SizeChange::width(int64_t n) const {
  return std::max<int64_t>(
      1, std::llround(static_cast<double>(n * to.width) / static_cast<double>(std::max<int64_t>(1, from.width))));
}

namespace {

bool has_size(const TransformRow& row) {
  return std::find(row.parameters.begin(), row.parameters.end(), "size") != row.parameters.end();
}

Arguments arguments_of(const TransformRow& row, std::vector<std::string> words) {
  words.erase(words.begin());
  return {row.name, words, row.parameters};
}

// Returns a transform's text with the arguments in `values` replaced. Arguments that the text does not have are
// appended.
std::string with_values(const TransformRow& row, const std::vector<std::string>& words, TransformValues values) {
  std::string out = row.name;
  for (size_t i = 1; i < words.size(); ++i) {
    const bool named = words[i].find('=') != std::string::npos;
    const std::string& key_of = named ? words[i] : row.parameters[i - 1];
    const std::string key = key_of.substr(0, key_of.find('='));
    const auto other = values.find(key);
    out += cat(" ", other == values.end() ? words[i] : named ? cat(key, "=", other->second) : other->second);
    if (other != values.end()) values.erase(other);
  }
  for (const auto& [key, value] : values) out += cat(" ", key, "=", value);
  return out;
}

TransformValues values_for(const TransformRow& row, const Arguments& arguments, const SizeChange& change) {
  if (row.sized) return row.sized(arguments, change);
  const Arguments::Size size = arguments.size("size");
  return {{"size", cat(change.height(size.height), ",", change.width(size.width))}};
}

}  // namespace

std::string Pipeline::text_for(ImageSize size) const {
  const std::vector<std::string> parts = text_ == "none" ? std::vector<std::string>() : split(text_, '|');
  const std::string both = cat(size.height, ",", size.width), cut = cat("center_crop ", both);
  size_t last = parts.size();  // index of the last step with a size
  SizeChange change{{}, size};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::string> words = words_of(parts[i]);
    if (!has_size(row_named(words[0]))) continue;
    last = i;
    const Arguments::Size of = arguments_of(row_named(words[0]), words).size("size");
    change.from = {of.height, of.width};
  }
  std::vector<std::string> out;
  if (last == parts.size()) out = {cat("resize ", both, " fit=cover"), cut};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::string> words = words_of(parts[i]);
    const TransformRow& row = row_named(words[0]);
    if (!has_size(row)) {
      out.push_back(join(words, " "));
      continue;
    }
    const TransformValues values = values_for(row, arguments_of(row, words), change);
    out.push_back(with_values(row, words, values));
    const auto fit = values.find("fit");
    if (i == last && fit != values.end() && fit->second == "cover") out.push_back(cut);
  }
  return join(out, " | ");
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
