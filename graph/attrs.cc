#include "graph/attrs.h"

#include "base/error.h"

namespace amp {

Attrs::Attrs() = default;
Attrs::Attrs(std::initializer_list<std::pair<const std::string, Value>> items) : items_(items) {}
Attrs::Attrs(const Attrs&) = default;
Attrs::Attrs(Attrs&&) noexcept = default;
Attrs& Attrs::operator=(const Attrs&) = default;
Attrs& Attrs::operator=(Attrs&&) noexcept = default;
Attrs::~Attrs() = default;

bool Attrs::has(const std::string& name) const { return items_.count(name) != 0; }
void Attrs::set(const std::string& name, Value v) { items_[name] = std::move(v); }

template <class T>
static const T* find(const std::map<std::string, Attrs::Value>& items, const std::string& name) {
  const auto it = items.find(name);
  if (it == items.end()) return nullptr;
  const T* v = std::get_if<T>(&it->second);
  if (!v) fail(Exit::model, "E_ATTR", cat("attribute '", name, "' has another kind than the operator expects"));
  return v;
}

int64_t Attrs::i(const std::string& name, int64_t fallback) const {
  const auto* v = find<int64_t>(items_, name);
  return v ? *v : fallback;
}
double Attrs::f(const std::string& name, double fallback) const {
  const auto* v = find<double>(items_, name);
  return v ? *v : fallback;
}
std::string Attrs::s(const std::string& name, const std::string& fallback) const {
  const auto* v = find<std::string>(items_, name);
  return v ? *v : fallback;
}
std::vector<int64_t> Attrs::ints(const std::string& name, std::vector<int64_t> fallback) const {
  if (const auto* v = find<std::vector<int64_t>>(items_, name)) return *v;
  return fallback;
}
std::vector<double> Attrs::floats(const std::string& name, std::vector<double> fallback) const {
  if (const auto* v = find<std::vector<double>>(items_, name)) return *v;
  return fallback;
}
const HostTensor* Attrs::tensor(const std::string& name) const { return find<HostTensor>(items_, name); }
std::shared_ptr<const SourceGraph> Attrs::graph(const std::string& name) const {
  const auto* v = find<std::shared_ptr<const SourceGraph>>(items_, name);
  return v ? *v : nullptr;
}

std::string Attrs::key() const {
  std::ostringstream out;
  out.precision(17);
  for (const auto& [name, value] : items_) {
    out << name << '=';
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, HostTensor>) {
            out << v.data();
          } else if constexpr (std::is_same_v<T, std::shared_ptr<const SourceGraph>>) {
            out << v.get();
          } else if constexpr (requires { v.begin(); } && !std::is_same_v<T, std::string>) {
            for (const auto& e : v) out << e << ',';
          } else {
            out << v;
          }
        },
        value);
    out << ';';
  }
  return out.str();
}

}  // namespace amp
