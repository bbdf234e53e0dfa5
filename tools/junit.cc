// Writes JUnit XML in the form that Jenkins and GitLab read. An error of the run is <error>, and a missed gate is
// <failure>. A run that stopped with a checkpoint is <skipped>, because it can be continued.
#include "tools/junit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cat.h"
#include "base/file.h"
#include "base/terminal_text.h"
#include "tools/cli/flag_text.h"

namespace amp {

namespace {

constexpr std::string_view kProgram = "onnx-amp-finetune";

// Escapes text for attributes and elements. XML 1.0 cannot express most control characters: printable_lines() writes
// them as \xNN. U+FFFE and U+FFFF, which XML forbids, become question marks.
std::string escaped(std::string_view text) {
  std::string out;
  const std::string clean = printable_lines(text);
  for (size_t i = 0; i < clean.size(); ++i) {
    const std::string_view three = std::string_view(clean).substr(i, 3);
    switch (clean[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      case '\t':
        out += "&#9;";
        break;
      default:
        if (three == "\xef\xbf\xbe" || three == "\xef\xbf\xbf") {
          out += '?';
          i += 2;
        } else {
          out += clean[i];
        }
    }
  }
  return out;
}

std::string element(const char* name, const std::string& type, const std::string& message) {
  return cat("<", name, type.empty() ? "" : cat(" type=\"", escaped(type), "\""), " message=\"", escaped(message),
             "\"/>");
}

}  // namespace

Junit::Junit(std::string path, std::string verb, Log log)
    : path_(std::move(path)), verb_(std::move(verb)), log_(std::move(log)) {}

int Junit::record(const std::function<int()>& body) {
  if (path_.empty()) return body();
  write(End::failed, "E_INTERRUPTED", "the program ended before its work was done, without a message");
  try {
    const int code = body();
    write_after(code == 0 ? End::done : End::failed, "", code == 0 ? "" : cat("exit code ", code));
    return code;
  } catch (const Error& e) {
    const Error shown = cli::with_flags(e);
    const End end = e.exit() == Exit::gate ? End::done : e.exit() == Exit::stopped ? End::stopped : End::failed;
    write_after(end, e.id(), shown.what());
    throw;
  }
}

void Junit::write_after(End end, const std::string& id, const std::string& message) const {
  try {
    write(end, id, message);
  } catch (const Error& e) {
    log_.warning(cat("the JUnit file was not written: ", e.what()));
  }
}

void Junit::write(End end, const std::string& id, const std::string& message) const {
  if (path_.empty()) return;
  const auto missed = std::count_if(gates_.begin(), gates_.end(), [](const GateResult& g) { return !g.met; });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const std::string counts =
      cat(" tests=\"", gates_.size() + 1, "\" failures=\"", missed, "\" errors=\"", end == End::failed ? 1 : 0,
          "\" skipped=\"", end == End::stopped ? 1 : 0, "\" time=\"", seconds, "\"");
  const auto open = [&](const std::string& name, double time) {
    return cat("    <testcase classname=\"", kProgram, ".", verb_, "\" name=\"", escaped(name), "\" time=\"", time,
               "\"");
  };
  std::string out = cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"", kProgram, "\"", counts,
                        ">\n  <testsuite name=\"", kProgram, " ", verb_, "\"", counts, ">\n", open("run", seconds));
  if (end == End::failed) out += cat(">", element("error", id, message), "</testcase>\n");
  if (end == End::stopped) out += cat(">", element("skipped", "", message), "</testcase>\n");
  if (end == End::done) out += "/>\n";
  for (const GateResult& g : gates_) {
    out += open(g.text, 0);
    out +=
        g.met ? "/>\n" : cat(">", element("failure", "E_GATE", cat("the final value is ", g.value)), "</testcase>\n");
  }
  FileWriter file(path_);
  file.write(out + "  </testsuite>\n</testsuites>\n");
  file.commit();
}

}  // namespace amp
