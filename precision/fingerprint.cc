// Fingerprint of a SourceGraph: FNV-1a over names, operators, attributes and edges. Numbers are hashed as little-endian
// bytes, so all machines compute the same fingerprint. A change of the hashed fields invalidates recorded plans.
#include <cinttypes>
#include <cstdio>
#include <type_traits>

#include "precision/decide.h"

namespace amp {

namespace {

class Fnv1a {
 public:
  void bytes(const void* data, size_t n) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < n; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3u;
  }
  void number(uint64_t v) {
    unsigned char little[8];
    for (int i = 0; i < 8; ++i) little[i] = static_cast<unsigned char>(v >> (8 * i));
    bytes(little, 8);
  }
  void text(const std::string& s) {
    number(s.size());
    bytes(s.data(), s.size());
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

void add(Fnv1a& h, int64_t v) { h.number(static_cast<uint64_t>(v)); }
void add(Fnv1a& h, const std::string& v) { h.text(v); }
void add(Fnv1a& h, double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, 8);
  h.number(bits);
}
template <class T>
void add(Fnv1a& h, const std::vector<T>& v) {
  h.number(v.size());
  for (const T& e : v) add(h, e);
}
void add(Fnv1a&, const HostTensor&) {}
void add(Fnv1a&, const std::shared_ptr<const SourceGraph>&) {}

}  // namespace

std::string graph_fingerprint(const SourceGraph& g) {
  Fnv1a h;
  // Dropout nodes that training has added are left out, so that the plan of a model is valid with and without them.
  const auto dropout = [](const SourceNode& n) { return n.place == Place::training && n.op == "Dropout"; };
  const auto value = [&](int v) {
    while (v >= 0) {
      const int p = g.values[static_cast<size_t>(v)].producer;
      if (p < 0 || !dropout(g.nodes[static_cast<size_t>(p)])) break;
      v = g.nodes[static_cast<size_t>(p)].inputs.at(0);
    }
    h.text(v < 0 ? std::string() : g.values[static_cast<size_t>(v)].name);
  };
  const auto values = [&](const std::vector<int>& list) {
    h.number(list.size());
    for (const int v : list) value(v);
  };
  for (const SourceNode& n : g.nodes) {
    if (dropout(n)) continue;
    h.text(n.domain);
    h.text(n.op);
    h.text(n.name);
    values(n.inputs);
    values(n.outputs);
    for (const auto& [name, attribute] : n.attrs.items()) {
      if (name == "site" || name == "training_dropout" || (name == "ratio" && n.op == "Dropout")) continue;
      h.text(name);
      std::visit([&](const auto& v) { add(h, v); }, attribute);
    }
  }
  values(g.inputs);
  values(g.outputs);
  char text[32];
  std::snprintf(text, sizeof text, "fnv1a:%016" PRIx64, h.value());
  return text;
}

}  // namespace amp
