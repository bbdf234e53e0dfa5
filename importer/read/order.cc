// Sorts nodes by Kahn's algorithm with a priority queue, so that independent nodes keep file order. Names captured by
// nested graphs count as inputs of the node that contains them. A sorted file returns early and keeps its order.
#include "importer/read/order.h"

#include <functional>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

constexpr int kMaxSubgraphDepth = 32;

void collect(const onnx::GraphProto& graph, int depth, std::set<std::string>& captured) {
  if (depth > kMaxSubgraphDepth) {
    fail(Exit::model, "E_SUBGRAPH_DEPTH", cat("subgraphs are nested more than ", kMaxSubgraphDepth, " deep"));
  }
  std::set<std::string> used, defined;
  for (const auto& i : graph.input()) defined.insert(i.name());
  for (const auto& i : graph.initializer()) defined.insert(i.name());
  for (const auto& n : graph.node()) {
    used.insert(n.input().begin(), n.input().end());
    defined.insert(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) collect(a.g(), depth + 1, used);
      for (const auto& g : a.graphs()) collect(g, depth + 1, used);
    }
  }
  for (const auto& o : graph.output()) used.insert(o.name());
  for (const std::string& name : used) {
    if (!name.empty() && !defined.count(name)) captured.insert(name);
  }
}

[[noreturn]] void report_cycle(const NodeProtos& nodes, const std::vector<std::vector<int>>& needs,
                               const std::vector<char>& done) {
  int at = 0;
  while (done[static_cast<size_t>(at)]) ++at;
  std::vector<int> path;
  std::unordered_map<int, size_t> position;
  while (position.emplace(at, path.size()).second) {
    path.push_back(at);
    for (const int p : needs[static_cast<size_t>(at)]) {
      if (!done[static_cast<size_t>(p)]) {
        at = p;
        break;
      }
    }
  }
  std::string text;
  for (size_t i = position[at]; i < path.size(); ++i) {
    if (i - position[at] == 10) {
      text += "... <- ";
      break;
    }
    text += describe(nodes[path[i]], path[i]) + " <- ";
  }
  fail(Exit::model, "E_GRAPH_CYCLE", cat("the graph has a cycle: ", text, describe(nodes[at], at)));
}

}  // namespace

std::set<std::string> captured_names(const onnx::NodeProto& node) {
  std::set<std::string> captured;
  for (const auto& a : node.attribute()) {
    if (a.has_g()) collect(a.g(), 1, captured);
    for (const auto& g : a.graphs()) collect(g, 1, captured);
  }
  return captured;
}

std::string describe(const onnx::NodeProto& node, int index) {
  return cat("node '", printable(node.name()), "' (", printable(node.op_type()), ", #", index, ")");
}

std::vector<int> topological_order(const NodeProtos& nodes, bool* was_sorted) {
  const int n = nodes.size();
  // Map each name to its producer; a second producer is an error.
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < n; ++i) {
    for (const std::string& o : nodes[i].output()) {
      if (o.empty()) continue;
      const auto [it, fresh] = producer.emplace(o, i);
      if (!fresh) {
        fail(Exit::model, "E_SSA",
             cat("value '", printable(o), "' is produced by ", describe(nodes[it->second], it->second), " and by ",
                 describe(nodes[i], i)));
      }
    }
  }
  // Collect the edges in both directions, and check on the way whether the file is sorted.
  std::vector<std::vector<int>> needs(static_cast<size_t>(n)), feeds(static_cast<size_t>(n));
  bool sorted = true;
  const auto edge = [&](const std::string& name, int user) {
    const auto it = producer.find(name);
    if (it == producer.end()) return;
    needs[static_cast<size_t>(user)].push_back(it->second);
    feeds[static_cast<size_t>(it->second)].push_back(user);
    sorted = sorted && it->second < user;
  };
  for (int i = 0; i < n; ++i) {
    for (const std::string& name : nodes[i].input()) edge(name, i);
    for (const std::string& name : captured_names(nodes[i])) edge(name, i);
  }
  std::vector<int> order;
  order.reserve(static_cast<size_t>(n));
  if (was_sorted) *was_sorted = sorted;
  if (sorted) {
    for (int i = 0; i < n; ++i) order.push_back(i);
    return order;
  }
  // Kahn's algorithm: repeatedly emit the ready node with the lowest index.
  std::vector<size_t> missing(static_cast<size_t>(n));
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < n; ++i) {
    missing[static_cast<size_t>(i)] = needs[static_cast<size_t>(i)].size();
    if (missing[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<char> done(static_cast<size_t>(n));
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    done[static_cast<size_t>(i)] = 1;
    order.push_back(i);
    for (const int user : feeds[static_cast<size_t>(i)]) {
      if (--missing[static_cast<size_t>(user)] == 0) ready.push(user);
    }
  }
  if (static_cast<int>(order.size()) < n) report_cycle(nodes, needs, done);
  return order;
}

}  // namespace amp
