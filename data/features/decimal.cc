// Reads numbers with a decimal point or a decimal comma. A number is an optional sign, digits, the decimal mark and
// more digits. The other mark may group the digits before the decimal mark by threes. 1,234 by itself is ambiguous, so
// one decimal mark is chosen for the whole table.
#include "data/features/decimal.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/features/feature_table.h"

namespace amp {

namespace {

bool digits(std::string_view t) {
  return !t.empty() && std::all_of(t.begin(), t.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Returns whether t is digits, or digits grouped by threes with the thousands separator.
bool whole_part(std::string_view t, char thousands) {
  size_t at = t.find(thousands);
  if (at == std::string_view::npos) return digits(t);
  if (at == 0 || at > 3 || !digits(t.substr(0, at)) || t[0] == '0') return false;
  for (; at != std::string_view::npos; at = at + 4 < t.size() ? at + 4 : std::string_view::npos) {
    if (t[at] != thousands || t.size() - at < 4 || !digits(t.substr(at + 1, 3))) return false;
  }
  return true;
}

// Returns the number with a decimal point; "" if the text is not a number. mark: the decimal mark of the text.
std::string plain_number(std::string_view text, char mark) {
  std::string_view t = text, sign;
  if (!t.empty() && (t[0] == '-' || t[0] == '+')) {
    sign = t.substr(0, 1);
    t.remove_prefix(1);
  }
  const size_t exponent = std::min(t.find_first_of("eE"), t.size()), at = std::min(t.find(mark), exponent);
  const std::string_view whole = t.substr(0, at), rest = t.substr(exponent),
                         fraction = at < exponent ? t.substr(at + 1, exponent - at - 1) : std::string_view();
  const bool has_fraction = at < exponent;
  if (!(whole_part(whole, mark == ',' ? '.' : ',') || (whole.empty() && has_fraction))) return {};
  if (has_fraction && !digits(fraction)) return {};
  if (!rest.empty()) {
    const size_t sign_size = rest.size() > 1 && (rest[1] == '-' || rest[1] == '+');
    if (!digits(rest.substr(1 + sign_size))) return {};
  }
  std::string out(sign);
  for (const char c : whole) {
    if (std::isdigit(static_cast<unsigned char>(c))) out += c;
  }
  if (whole.empty()) out += '0';
  return out + (has_fraction ? "." : "") + std::string(fraction) + std::string(rest);
}

struct ColumnLook {
  bool comma = true, point = true;                  // true if every value is a number with a decimal comma (or point)
  bool commas = false;                              // true if some value has a comma
  std::map<std::string, std::string> rewritten[2];  // texts that change: [1] decimal comma, [0] point
  std::string example;
};

ColumnLook look_at(const Table& table, size_t c) {
  ColumnLook out;
  for (int64_t r = 0; r < table.rows() && (out.comma || out.point); ++r) {
    if (!table.has(r, c)) continue;
    if (table.is_json(r, c)) return {false, false, false, {}, {}};
    if (table.is_literal(r, c)) continue;
    const std::string_view text = table.text(r, c), t = trimmed(text);
    if (is_missing(t)) continue;
    if (all_digits(t.substr(t[0] == '-' || t[0] == '+'))) continue;  // the text is the same number with either mark
    if (t.find(',') != std::string_view::npos && !std::exchange(out.commas, true)) out.example = t;
    for (const char mark : {',', '.'}) {
      bool& fits = mark == ',' ? out.comma : out.point;
      const std::string number = fits ? plain_number(t, mark) : std::string();
      fits = !number.empty();
      if (fits && number != t) out.rewritten[mark == ','].emplace(text, number);
    }
  }
  return out;
}

}  // namespace

DecimalMark decimal_mark(const std::string& name) {
  return name == "point" ? DecimalMark::point : name == "comma" ? DecimalMark::comma : DecimalMark::automatic;
}

void read_decimal_marks(Table& table, DecimalMark mark, const std::vector<std::string>& columns) {
  std::vector<std::pair<std::string, ColumnLook>> looks;
  bool commas = false;  // true if some column certainly has decimal commas
  for (const std::string& name : columns) {
    if (!table.has_column(name)) continue;
    looks.emplace_back(name, look_at(table, table.column(name)));
    const ColumnLook& l = looks.back().second;
    commas = commas || (l.commas && l.comma && !l.point);
  }
  const auto unclear = [](const ColumnLook& l) { return l.commas && l.comma && l.point; };
  const auto first = std::find_if(looks.begin(), looks.end(), [&](const auto& l) { return unclear(l.second); });
  if (mark == DecimalMark::automatic && !commas) {
    if (first == looks.end()) return;
    fail(Exit::data, "E_DATA_NUMBER",
         cat(table.name(), ": column '", printable(first->first), "' has numbers as ", printable(first->second.example),
             ", whose comma may be a decimal mark or a thousands separator"),
         "give `decimal` comma or `decimal` point");
  }
  const bool by_comma = mark != DecimalMark::point;
  std::vector<std::string> changed;
  std::string example;
  for (auto& [name, look] : looks) {
    const std::map<std::string, std::string>& texts = look.rewritten[by_comma];
    if (!(by_comma ? look.comma : look.point) || texts.empty()) continue;
    table.replace(table.column(name), texts);
    changed.push_back(printable(name));
    const auto shown =
        std::find_if(texts.begin(), texts.end(), [](const auto& t) { return t.first.find(',') != std::string::npos; });
    if (shown != texts.end() && example.empty()) example = cat(": ", printable(shown->first), " is ", shown->second);
  }
  if (!changed.empty() && mark == DecimalMark::automatic)
    table.add_note(cat(table.name(), ": numbers with a decimal comma in ", join(changed, ", "), example,
                       " (`decimal` point reads them otherwise)"));
}

}  // namespace amp
