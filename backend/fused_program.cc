// Writes and parses the text form of fused programs. Floating-point numbers are hexadecimal, so that parsing returns
// the same bits. Attributes are stored as name=TVALUE with T in {i, f, s}.

#include "backend/fused_program.h"

#include <cstdlib>
#include <sstream>

#include "base/error.h"

namespace amp {

namespace {

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", v);
  return text;
}

// Formats attributes, for example name=i5 name=f0x1p-1 name=stext.
std::string text_of(const Attrs& a) {
  std::string s;
  for (const auto& [name, value] : a.items()) {
    s += s.empty() ? "" : " ";
    if (const auto* i = std::get_if<int64_t>(&value))
      s += cat(name, "=i", *i);
    else if (const auto* f = std::get_if<double>(&value))
      s += cat(name, "=f", number(*f));
    else if (const auto* t = std::get_if<std::string>(&value))
      s += cat(name, "=s", *t);
    else
      bug(cat("attribute ", name, " in a fused node"));
  }
  return s;
}

void read_attr(const std::string& word, Attrs& to) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals + 1 >= word.size()) bug("a fused program's attribute: " + word);
  const std::string name = word.substr(0, equals), value = word.substr(equals + 2);
  switch (word[equals + 1]) {
    case 'i':
      return to.set(name, static_cast<int64_t>(std::strtoll(value.c_str(), nullptr, 10)));
    case 'f':
      return to.set(name, std::strtod(value.c_str(), nullptr));
    case 's':
      return to.set(name, value);
    default:
      bug("a fused program's attribute: " + word);
  }
}

}  // namespace

bool FusedProgram::can_hold(const Attrs::Value& v) {
  if (const auto* t = std::get_if<std::string>(&v)) return t->find_first_of(" \n{}") == std::string::npos;
  return std::holds_alternative<int64_t>(v) || std::holds_alternative<double>(v);
}

Attrs FusedProgram::attrs() const {
  std::string text;
  for (const FusedStep& s : steps) {
    text += cat(text.empty() ? "" : "\n", s.op, ' ', name_of(s.type));
    for (const int v : s.in) text += cat(' ', v);
    if (!s.attrs.items().empty()) text += cat(" {", text_of(s.attrs), '}');
    if (s.out) text += " out";
  }
  return {{"program", text}};
}

FusedProgram FusedProgram::parse(const Attrs& a, size_t n_in) {
  FusedProgram p;
  p.n_in = static_cast<int>(n_in);
  std::istringstream lines(a.s("program", ""));
  for (std::string line; std::getline(lines, line);) {
    FusedStep s;
    const size_t open = line.find('{'), close = line.find('}');
    if (open != std::string::npos) {
      std::istringstream words(line.substr(open + 1, close - open - 1));
      for (std::string w; words >> w;) read_attr(w, s.attrs);
      line.erase(open, close - open + 1);
    }
    std::istringstream words(line);
    std::string w;
    words >> s.op >> w;
    s.type = dtype_from_name(w);
    while (words >> w) {
      if (w == "out")
        s.out = true;
      else
        s.in.push_back(std::stoi(w));
    }
    for (const int v : s.in) {
      if (v < 0 || v >= p.value_of(p.steps.size())) bug("a fused program reads a value that is not there: " + line);
    }
    p.steps.push_back(std::move(s));
  }
  if (p.steps.empty()) bug("a fused program without steps");
  return p;
}

}  // namespace amp
