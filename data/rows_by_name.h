// Returns pointers to the entries of a registry (of readers, image decoders, transforms ...), sorted by name. So their
// order does not depend on the order in which files are linked.
#pragma once

#include <algorithm>
#include <vector>

namespace amp {

template <class Row>
std::vector<const Row*> rows_by_name(const std::vector<Row>& rows) {
  std::vector<const Row*> out;
  for (const Row& r : rows) out.push_back(&r);
  std::sort(out.begin(), out.end(), [](const Row* a, const Row* b) { return a->name < b->name; });
  return out;
}

}  // namespace amp
