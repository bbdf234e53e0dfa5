#include "backend/node_work.h"

#include <algorithm>
#include <map>
#include <string>

#include "backend/indices.h"

namespace amp {

static std::map<std::string, CountFlops, std::less<>>& counts() {
  static std::map<std::string, CountFlops, std::less<>> t;
  return t;
}

RegisterFlops::RegisterFlops(std::string_view op, CountFlops count) { counts().emplace(op, count); }

NodeWork node_work(const KernelArgs& a, bool accumulates) {
  NodeWork w;
  for (const Tensor& t : a.out) w.written += t.data ? t.bytes() : 0;
  // A lookup reads as many bytes as it writes, not the whole table.
  const std::optional<Lookup> lookup = find_lookup(a.node.op->name);
  const bool looks_up = lookup && lookup->moves;
  for (const Tensor& t : a.in) w.read += !t.data ? 0 : looks_up ? std::min(t.bytes(), w.written) : t.bytes();
  if (a.deferred && !looks_up) {
    for (const Tensor& t : a.deferred->in) w.read += t.data ? t.bytes() : 0;
  }
  if (accumulates) w.read += w.written;
  if (const auto it = counts().find(a.node.op->name); it != counts().end()) w.flops = it->second(a);
  return w;
}

}  // namespace amp
