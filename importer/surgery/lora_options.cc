// Parses the text of `lora`: KEY=VALUE, separated by commas. targets, rank_pattern and alpha_pattern may be repeated.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/lora.h"

namespace amp {
namespace {

constexpr const char* kForm =
    "write r=8,alpha=16,targets=GLOB[,targets=GLOB]; also dropout=P, rslora=true, dora=true, fused=true, lr_ratio=X, "
    "init=kaiming|gaussian|zero|pissa, rank_pattern=GLOB:R, alpha_pattern=GLOB:X";

std::optional<double> number_of(const std::string& text) {
  char* rest = nullptr;
  const double x = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != '\0' || !std::isfinite(x)) return std::nullopt;
  return x;
}

std::optional<int64_t> rank_of(const std::string& text) {
  const auto x = number_of(text);
  if (!x || *x < 1 || *x != std::floor(*x) || *x > 65536) return std::nullopt;
  return static_cast<int64_t>(*x);
}

bool set_truth(const std::string& text, bool& to) {
  to = text == "true";
  return text == "true" || text == "false";
}

bool set_init(const std::string& text, LoraInit& to) {
  static const std::map<std::string, LoraInit> known = {{"kaiming", LoraInit::kaiming},
                                                        {"gaussian", LoraInit::gaussian},
                                                        {"zero", LoraInit::zero},
                                                        {"pissa", LoraInit::pissa}};
  const auto it = known.find(text);
  if (it != known.end()) to = it->second;
  return it != known.end();
}

bool set_number(const std::string& text, double least, double below, double& to) {
  const auto x = number_of(text);
  if (!x || *x < least || *x >= below) return false;
  to = *x;
  return true;
}

// Appends a pattern "GLOB:NUMBER".
template <class T>
bool add_pattern(const std::string& text, const std::function<std::optional<T>(const std::string&)>& parse,
                 std::vector<std::pair<std::string, T>>& to) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::optional<T> x = parse(text.substr(colon + 1));
  if (!x || !(*x > 0)) return false;
  to.emplace_back(text.substr(0, colon), *x);
  return true;
}

// Sets one key; returns false if the key or its value is not understood.
bool set_key(LoraOptions& o, const std::string& key, const std::string& value) {
  if (key == "r") {
    const auto r = rank_of(value);
    if (r) o.r = *r;
    return r.has_value();
  }
  if (key == "alpha") return set_number(value, 0, INFINITY, o.alpha) && o.alpha > 0;
  if (key == "dropout") return set_number(value, 0, 1, o.dropout);
  if (key == "lr_ratio") return set_number(value, 0, INFINITY, o.lr_ratio) && o.lr_ratio > 0;
  if (key == "rslora") return set_truth(value, o.rslora);
  if (key == "dora") return set_truth(value, o.dora);
  if (key == "fused") return set_truth(value, o.fused);
  if (key == "init") return set_init(value, o.init);
  if (key == "rank_pattern") return add_pattern<int64_t>(value, rank_of, o.ranks);
  if (key == "alpha_pattern") return add_pattern<double>(value, number_of, o.alphas);
  if (key != "targets" || value.empty()) return false;
  o.targets.push_back(value);
  return true;
}

}  // namespace

LoraOptions parse_lora(const std::string& text) {
  LoraOptions o;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const size_t eq = part.find('=');
    if (eq == std::string::npos || !set_key(o, part.substr(0, eq), part.substr(eq + 1)))
      fail(Exit::usage, "E_LORA", cat("`lora` ", printable(text), ": '", printable(part), "' is not understood"),
           kForm);
  }
  if (o.dora && o.init == LoraInit::pissa)
    fail(Exit::usage, "E_LORA", "`lora`: dora=true and init=pissa both decompose the weight", "give one of them");
  return o;
}

}  // namespace amp
