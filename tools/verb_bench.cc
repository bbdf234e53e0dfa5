// Verb bench: measures the kernels of a training step, prints a table or JSON, and writes a trace. bench_step() in run/
// measures; this file only formats.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "run/evaluate/bench.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

namespace {

constexpr size_t kLongest = 20;  // number of kernels shown without --verbose

std::string number(double x, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, x);
  return text;
}
std::string wide(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// Formats the columns whose headings are in kFigures. A column without a value is "-".
std::string figures(const BenchReport& r, int64_t calls, double seconds, double flops, double bytes) {
  const bool counts = flops > 0 && seconds > 0, moves = bytes > 0 && seconds > 0;
  const std::string share = counts && r.peak > 0 ? number(100 * r.share_of_peak(flops, seconds), 0) : "-";
  return cat(wide(std::to_string(calls), 6), wide(number(seconds * 1e3, 3), 11),
             wide(number(100 * seconds / r.step.seconds, 1), 7), wide(counts ? number(flops / 1e9, 3) : "-", 10),
             wide(counts ? number(flops / seconds / 1e9, 1) : "-", 10), wide(share, 8),
             wide(moves ? number(bytes / 1e6, 2) : "-", 11), wide(moves ? number(bytes / seconds / 1e9, 1) : "-", 8));
}
constexpr const char* kFigures = " calls         ms      %     GFLOP   GFLOP/s  % peak         MB    GB/s";

void print_kinds(std::ostream& out, const BenchReport& r) {
  const StepProfile& s = r.step;
  out << "\nkinds of operators, of a step\n" << kFigures << "  operator\n";
  double flops = 0, bytes = static_cast<double>(s.update_bytes);
  for (const KindTime& k : by_operator(s)) {
    const auto moved = static_cast<double>(k.work.bytes());
    out << figures(r, k.calls, k.seconds, k.work.flops, moved) << "  " << k.op << '\n';
    flops += k.work.flops;
    bytes += moved;
  }
  out << figures(r, 1, s.update, 0, static_cast<double>(s.update_bytes)) << "  (the update)\n"
      << figures(r, 1, s.rest, 0, 0) << "  (the rest: feeding the batch, clearing, losses)\n"
      << figures(r, 1, s.seconds, flops, bytes) << "  the step\n";
}

void print_kernels(std::ostream& out, const BenchReport& r, bool all) {
  std::vector<const NodeTime*> nodes;
  for (const NodeTime& n : r.step.nodes) nodes.push_back(&n);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeTime* a, const NodeTime* b) { return a->seconds > b->seconds; });
  const size_t shown = all ? nodes.size() : std::min(kLongest, nodes.size());
  out << '\n'
      << (shown < nodes.size() ? cat("the longest ", shown, " of ", nodes.size(), " kernels (--verbose: all)")
                               : cat(nodes.size(), " kernels"))
      << '\n'
      << kFigures << "  operator, operands, node\n";
  for (size_t i = 0; i < shown; ++i) {
    const NodeTime& n = *nodes[i];
    const auto calls = static_cast<double>(n.calls);
    out << figures(r, n.calls, n.seconds, n.work.flops * calls, static_cast<double>(n.work.bytes()) * calls) << "  "
        << n.op << ' ' << n.operands << (n.role.empty() ? "" : "  " + n.role)
        << (n.name.empty() ? "" : " " + printable(n.name)) << '\n';
  }
}

void print_head(std::ostream& out, const BenchReport& r) {
  const StepProfile& s = r.step;
  out << "step: " << number(s.seconds * 1e3, 3) << " ms in kernels and around, each the median of " << s.steps
      << "; by the clock " << number(s.wall_seconds * 1e3, 3) << ", where no kernel is timed "
      << number(s.plain_seconds * 1e3, 3) << '\n'
      << "batch: " << r.batch << (r.synthetic ? ", synthetic" : "") << '\n'
      << "device: " << r.device;
  if (r.peak > 0) {
    out << ", " << r.isa << ", " << s.threads << (s.threads == 1 ? " thread" : " threads") << "; measured peak "
        << number(r.peak / 1e9, 1) << " GFLOP/s";
    if (s.threads > 1) out << " (one thread " << number(r.peak_of_one / 1e9, 1) << ')';
    if (r.bf16_peak > 0) out << ", bf16 " << number(r.bf16_peak / 1e9, 1);
  }
  out << '\n';
}

nlohmann::json figures_json(const BenchReport& r, int64_t calls, double seconds, const NodeWork& all) {
  nlohmann::json j = {{"calls", calls},      {"seconds", seconds},     {"share_of_step", seconds / r.step.seconds},
                      {"flops", all.flops},  {"bytes_read", all.read}, {"bytes_written", all.written},
                      {"bytes", all.bytes()}};
  if (seconds > 0) {
    j["flops_per_second"] = all.flops / seconds;
    j["bytes_per_second"] = static_cast<double>(all.bytes()) / seconds;
    if (r.peak > 0) j["share_of_peak"] = r.share_of_peak(all.flops, seconds);
  }
  return j;
}

nlohmann::json to_json(const BenchReport& r) {
  const StepProfile& s = r.step;
  nlohmann::json kernels = nlohmann::json::array(), kinds = nlohmann::json::array();
  for (const NodeTime& n : s.nodes) {
    NodeWork all{n.work.flops * static_cast<double>(n.calls), n.work.read * n.calls, n.work.written * n.calls};
    nlohmann::json j = figures_json(r, n.calls, n.seconds, all);
    j.update({{"operator", n.op}, {"node", n.name}, {"role", n.role}, {"operands", n.operands}});
    kernels.push_back(std::move(j));
  }
  for (const KindTime& k : by_operator(s)) {
    nlohmann::json j = figures_json(r, k.calls, k.seconds, k.work);
    j["operator"] = k.op;
    kinds.push_back(std::move(j));
  }
  return {{"device", r.device},
          {"isa", r.isa},
          {"threads", s.threads},
          {"peak_flops_per_second", r.peak},
          {"peak_of_one_thread", r.peak_of_one},
          {"bf16_peak_flops_per_second", r.bf16_peak},
          {"batch", r.batch},
          {"synthetic", r.synthetic},
          {"timed_steps", s.steps},
          {"step_seconds", s.seconds},
          {"wall_step_seconds", s.wall_seconds},
          {"plain_step_seconds", s.plain_seconds},
          {"update", {{"seconds", s.update}, {"bytes", s.update_bytes}}},
          {"rest_seconds", s.rest},
          {"kinds", kinds},
          {"kernels", kernels}};
}

}  // namespace

static int run_bench(const cli::Options& opts, const Console& console) {
  const BenchReport r = bench_step(spec_of(opts), static_cast<int>(opts.integer("timed_steps")), console.log());
  if (opts.has("trace")) {
    FileWriter file(opts.str("trace"));
    file.write(chrome_trace(r));
    file.commit();
  }
  if (opts.flag("json")) {
    std::cout << printable_json(to_json(r).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) << '\n';
    return 0;
  }
  std::ostringstream out;
  print_head(out, r);
  print_kinds(out, r);
  if (!opts.flag("quiet")) print_kernels(out, r, opts.flag("verbose"));
  std::cout << printable_lines(out.str());
  return 0;
}

static const RegisterVerb bench_verb(cli::Verb::bench, run_bench);

}  // namespace amp
