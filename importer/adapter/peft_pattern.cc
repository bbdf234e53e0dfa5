// Matches the regular expressions in rank_pattern and alpha_pattern. They consist of characters, ".", "\d", "\w",
// escaped characters, and the quantifiers "*", "+" and "?". The matcher keeps the set of positions in the expression
// that are reachable. So even a hostile expression takes time proportional to its length times the name's length. The
// reference is PEFT's get_pattern_key().
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "importer/adapter/peft_folder.h"

namespace amp {
namespace {

struct Atom {
  enum class Kind : uint8_t { character, any, digit, word } kind = Kind::character;
  char character = 0;
  bool repeats = false, optional = false;

  bool accepts(char c) const {
    const auto u = static_cast<unsigned char>(c);
    switch (kind) {
      case Kind::any:
        return c != '\n';
      case Kind::digit:
        return std::isdigit(u) != 0;
      case Kind::word:
        return std::isalnum(u) != 0 || c == '_';
      default:
        return c == character;
    }
  }
};

[[noreturn]] void not_read(const std::string& pattern) {
  fail(Exit::data, "E_PEFT",
       cat("the regular expression '", printable(pattern), "' in rank_pattern or alpha_pattern is not read"),
       "characters, \".\", \"\\d\", \"\\w\" and the quantifiers * + ? are; write one key for each module");
}

std::vector<Atom> atoms_of(const std::string& pattern, size_t from) {
  std::vector<Atom> atoms;
  for (size_t i = from; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*' || c == '+' || c == '?') {
      if (atoms.empty() || atoms.back().repeats || atoms.back().optional) not_read(pattern);
      atoms.back().repeats = c != '?';
      atoms.back().optional = c != '+';
      continue;
    }
    Atom a;
    if (c == '\\') {
      if (++i == pattern.size()) not_read(pattern);
      const char e = pattern[i];
      if (std::isalnum(static_cast<unsigned char>(e)) && e != 'd' && e != 'w') not_read(pattern);
      a.kind = e == 'd' ? Atom::Kind::digit : e == 'w' ? Atom::Kind::word : Atom::Kind::character;
      a.character = e;
    } else if (c == '.') {
      a.kind = Atom::Kind::any;
    } else if (c == '$' && i + 1 == pattern.size()) {
      continue;  // PEFT appends a "$" itself
    } else if (std::string("()[]{}|^$").find(c) != std::string::npos) {
      not_read(pattern);
    } else {
      a.character = c;
    }
    atoms.push_back(a);
  }
  return atoms;
}

bool matches_from(const std::vector<Atom>& atoms, const std::string& name, size_t begin) {
  std::vector<char> reached(atoms.size() + 1);
  const auto skip_optional = [&] {
    for (size_t k = 0; k < atoms.size(); ++k) {
      if (reached[k] && atoms[k].optional) reached[k + 1] = 1;
    }
  };
  reached[0] = 1;
  skip_optional();
  for (size_t i = begin; i < name.size(); ++i) {
    std::vector<char> next(atoms.size() + 1);
    for (size_t k = 0; k < atoms.size(); ++k) {
      if (!reached[k] || !atoms[k].accepts(name[i])) continue;
      next[k + 1] = 1;
      if (atoms[k].repeats) next[k] = 1;
    }
    reached = std::move(next);
    // After one repetition, the atom may also end.
    skip_optional();
  }
  return reached[atoms.size()] != 0;
}

}  // namespace

bool peft_pattern_matches(const std::string& pattern, const std::string& name) {
  const bool whole = pattern.starts_with('^');
  const std::vector<Atom> atoms = atoms_of(pattern, whole ? 1 : 0);
  if (matches_from(atoms, name, 0)) return true;
  for (size_t dot = name.find('.'); !whole && dot != std::string::npos; dot = name.find('.', dot + 1)) {
    if (matches_from(atoms, name, dot + 1)) return true;
  }
  return false;
}

}  // namespace amp
