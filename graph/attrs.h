// The attributes of a node, with the attribute kinds of ONNX. They are read by name; a missing one has a default.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct SourceGraph;

class Attrs {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                             std::vector<std::string>, HostTensor, std::shared_ptr<const SourceGraph>>;

  // The special members are defined in attrs.cc. Otherwise each file would contain the large code of map and variant.
  Attrs();
  Attrs(std::initializer_list<std::pair<const std::string, Value>> items);
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();

  bool has(const std::string& name) const;
  void set(const std::string& name, Value v);
  const std::map<std::string, Value>& items() const { return items_; }

  // Each function returns the attribute's value, or `fallback` if the attribute is absent. Throws E_ATTR (Exit::model),
  // naming the attribute, if it has another kind than requested.
  int64_t i(const std::string& name, int64_t fallback) const;
  double f(const std::string& name, double fallback) const;
  std::string s(const std::string& name, const std::string& fallback) const;
  std::vector<int64_t> ints(const std::string& name, std::vector<int64_t> fallback = {}) const;
  std::vector<double> floats(const std::string& name, std::vector<double> fallback = {}) const;
  const HostTensor* tensor(const std::string& name) const;  // returns null if the attribute is absent
  std::shared_ptr<const SourceGraph> graph(const std::string& name) const;

  // Returns a canonical text of all attributes, for common subexpression elimination. Tensors are compared by address.
  std::string key() const;

 private:
  std::map<std::string, Value> items_;
};

}  // namespace amp
