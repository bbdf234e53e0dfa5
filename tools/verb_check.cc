// Verb check: reports whether a model can be trained: every node with the reason if it cannot, the parameters, and the
// head that would be added. Exit code 0 or 4.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "run/check/check.h"
#include "tools/cli/flag_text.h"
#include "tools/console.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

namespace {

void print_table(std::ostream& out, const CheckReport& r) {
  size_t wide = 24;
  for (const CheckedNode& n : r.nodes) wide = std::max(wide, printable(operator_name(n)).size());
  const int width = static_cast<int>(wide) + 2;
  out << "nodes (open dimensions probed as " << r.batch << ", " << r.length << ")\n"
      << "    #  " << std::left << std::setw(width) << "operator" << std::right
      << "opset  forward  backward  type  shape, name, reason\n";
  for (size_t n = 0; n < r.nodes.size(); ++n) {
    const CheckedNode& x = r.nodes[n];
    const char* forward = !x.live ? "-" : x.forward ? "yes" : "NO";
    const char* backward = !x.live || !x.forward ? "-" : !x.backward ? "NO" : x.gradient ? "yes" : "none";
    out << std::setw(5) << n << "  " << std::left << std::setw(width) << printable(operator_name(x)) << std::setw(7)
        << x.opset << std::setw(9) << forward << std::setw(10) << backward << std::setw(6) << x.precision << std::right
        << x.shape << ' ' << printable(x.name) << "  (" << x.reason << ")" << (x.todo.empty() ? "" : " -> " + x.todo)
        << '\n';
  }
}

void print_head(std::ostream& out, const CheckedHead& h) {
  for (const auto& [output, classes] : h.own)
    out << "head: output '" << output << "' serves for " << classes << " classes as it is\n";
  if (!h.error.empty()) {
    out << "head: none can be attached: " << h.error << " -> " << h.todo << '\n';
  } else if (h.needed) {
    out << "head: for labeled text of another number of classes a new one would read '" << h.from << "' (" << h.reason
        << "), pooling " << h.pooling << '\n';
  }
}

void print_text(std::ostream& out, const CheckReport& r) {
  print_table(out, r);
  out << "\ntensors (those in doubt first)\n" << r.tensor_table << '\n';
  print_head(out, r.head);
  for (const std::string& line : r.before_training) out << "before training: " << line << '\n';
  if (!r.unsupported.empty())
    out << "not supported: " << join(std::vector<std::string>(r.unsupported.begin(), r.unsupported.end()), ", ")
        << '\n';
  if (r.unreached) out << r.unreached << " trainable tensors get no gradient from the chosen outputs\n";
  out << (r.trains ? "trains: yes" : "trains: no")
      << (r.fixed.rows > 0 ? cat(", batches of ", r.fixed.rows) : std::string())
      << (r.fixed.length > 0 ? cat(", inputs of length ", r.fixed.length) : std::string()) << ", "
      << with_thousands(r.elements) << " trainable values in " << r.tensors << " tensors, " << r.no_forward
      << " nodes cannot run, " << r.no_backward << " have no gradient" << (r.todo.empty() ? "" : "; " + r.todo) << '\n';
}

nlohmann::json head_json(const CheckedHead& h) {
  nlohmann::json own = nlohmann::json::array();
  for (const auto& [output, classes] : h.own) own.push_back({{"output", output}, {"classes", classes}});
  if (!h.error.empty()) return {{"own", own}, {"error", h.error}, {"todo", h.todo}};
  return {{"own", own}, {"needed", h.needed}, {"from", h.from}, {"pooling", h.pooling}, {"reason", h.reason}};
}

nlohmann::json parsed(const std::vector<std::string>& lines) {
  nlohmann::json out = nlohmann::json::array();
  for (const std::string& line : lines) out.push_back(nlohmann::json::parse(line));
  return out;
}

nlohmann::json to_json(const CheckReport& r, const std::string& model) {
  nlohmann::json nodes = nlohmann::json::array(), dropout = nlohmann::json::array();
  for (size_t n = 0; n < r.nodes.size(); ++n) {
    const CheckedNode& x = r.nodes[n];
    nodes.push_back({{"index", n},
                     {"name", x.name},
                     {"op", x.op},
                     {"domain", x.domain},
                     {"opset", x.opset},
                     {"shape", x.shape},
                     {"live", x.live},
                     {"forward", x.forward},
                     {"backward", x.backward},
                     {"needs_gradient", x.gradient},
                     {"precision", x.precision},
                     {"reason", x.reason},
                     {"todo", x.todo}});
  }
  for (const DropoutSpot& d : r.dropout) dropout.push_back({{"kind", d.kind}, {"node", d.node}, {"ratio", d.ratio}});
  return {{"model", model},
          {"trains", r.trains},
          {"todo", r.todo},
          {"batch_size", r.fixed.rows > 0 ? nlohmann::json(r.fixed.rows) : nlohmann::json(nullptr)},
          {"length", r.fixed.length > 0 ? nlohmann::json(r.fixed.length) : nlohmann::json(nullptr)},
          {"unsupported_nodes", r.no_forward + r.no_backward},
          {"unsupported_operators", r.unsupported},
          {"loss_outputs", r.loss_outputs},
          {"trainable_tensors", r.tensors},
          {"trainable_elements", r.elements},
          {"unreached_tensors", r.unreached},
          {"head", head_json(r.head)},
          {"before_training", r.before_training},
          {"dropout", dropout},
          {"notes", r.notes},
          {"nodes", nodes},
          {"parameters", parsed(r.parameter_lines)},
          {"tensors", parsed(r.tensor_lines)}};
}

}  // namespace

// Replaces the names of settings by flags in the report's sentences.
static CheckReport with_flags(CheckReport r) {
  const auto rewrite = [](std::string& text) { text = cli::with_flags(text); };
  for (CheckedNode& n : r.nodes) {
    rewrite(n.reason);
    rewrite(n.todo);
  }
  for (std::string* text : {&r.todo, &r.tensor_table, &r.head.error, &r.head.todo, &r.head.reason}) rewrite(*text);
  for (auto* lines : {&r.before_training, &r.notes, &r.parameter_lines, &r.tensor_lines}) {
    std::for_each(lines->begin(), lines->end(), rewrite);
  }
  return r;
}

static int run_check(const cli::Options& opts, const Console& console) {
  const CheckReport r = with_flags(check_model(spec_of(opts), console.log()));
  if (opts.flag("json")) {
    const nlohmann::json j = to_json(r, opts.str("model"));
    std::cout << printable_json(j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) << '\n';
  } else {
    std::ostringstream out;
    print_text(out, r);
    std::cout << printable_lines(out.str());
  }
  return r.trains ? 0 : static_cast<int>(Exit::unsupported);
}

static const RegisterVerb check_verb(cli::Verb::check, run_check);

}  // namespace amp
