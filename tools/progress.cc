// Draws the progress bar or plain progress lines, with a sparkline of the loss, and the line of an activity. Bar and
// activity drop details to fit the terminal's width, and are cleared correctly after the terminal was resized.
#include "tools/progress.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "base/text.h"
#include "tools/cli/terminal.h"

namespace amp {

namespace {
constexpr double kRedrawSeconds = 0.1;
// Columns at the end of a line that are not used: two for the ^C that the terminal prints, and one because some
// terminals wrap after a full last column.
constexpr int kFree = 3;

template <class... A>
std::string print(const char* format, A... arguments) {
  char text[128];
  std::snprintf(text, sizeof text, format, arguments...);
  return text;
}

std::string steps(const ProgressState& s) {
  const std::string done = std::to_string(s.step);
  return s.total > 0 ? done + "/" + std::to_string(s.total) : done;
}

// Returns whether the terminal can show block characters, which requires a UTF-8 locale.
bool has_blocks() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", static_cast<locale_t>(nullptr));
  if (locale == static_cast<locale_t>(nullptr)) return false;
  const bool utf8 = std::strcmp(::nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
  ::freelocale(locale);
  return utf8;
}

// Returns whether the terminal re-wraps lines when it is resized. Most do; xterm, rxvt, the Linux console and GNU
// screen truncate them.
bool reflows() {
  const char* term = std::getenv("TERM");
  const std::string name = term ? term : "";
  if (std::getenv("TMUX")) return true;
  return !std::getenv("XTERM_VERSION") && !std::getenv("STY") && name != "linux" && !name.starts_with("rxvt") &&
         !name.starts_with("vt");
}
}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "--:--";
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s >= 3600) return print("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return print("%02lld:%02lld", s / 60, s % 60);
}

double seconds_left(const ProgressState& s) {
  const int64_t here = s.step - s.first_step;
  if (s.total <= 0 || here <= 0) return std::numeric_limits<double>::quiet_NaN();
  return s.seconds / static_cast<double>(here) * static_cast<double>(std::max<int64_t>(0, s.total - s.step));
}

void Course::add(double value) {
  if (!std::isfinite(value)) return;
  if (sums_.empty() || in_last_ == each_) {
    sums_.push_back(0);
    in_last_ = 0;
  }
  sums_.back() += value;
  ++in_last_;
  if (sums_.size() <= kMost || in_last_ < each_) return;
  for (size_t i = 0; 2 * i + 1 < sums_.size(); ++i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
  const bool odd = sums_.size() % 2;
  if (odd) sums_[sums_.size() / 2] = sums_.back();
  sums_.resize((sums_.size() + 1) / 2);
  in_last_ = odd ? each_ : 2 * each_;
  each_ *= 2;
}

std::string Course::sparkline(int columns) const {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> means;
  const size_t groups = std::min(sums_.size(), static_cast<size_t>(std::max(0, columns)));
  for (size_t g = 0; g < groups; ++g) {  // averages neighbors until there are as many groups as columns
    const size_t from = g * sums_.size() / groups, to = (g + 1) * sums_.size() / groups;
    double sum = 0, n = 0;
    for (size_t i = from; i < to; ++i) {
      sum += sums_[i];
      n += static_cast<double>(i + 1 == sums_.size() ? in_last_ : each_);
    }
    means.push_back(sum / n);
  }
  if (means.size() < 2) return {};
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string out;
  for (const double m : means) out += kBlocks[*high > *low ? std::lround((m - *low) / (*high - *low) * 7) : 0];
  return out;
}

int display_width(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string clear_line(int columns, int width, bool reflows) {
  const int rows = width > 0 ? (columns + width - 1) / width : 1;
  if (rows <= 1) return "\r\x1b[K";
  return reflows ? print("\x1b[%dA\r\x1b[J", rows - 1) : "\r\x1b[J";
}

namespace {

// Which details a bar shows. kDetails lists the forms of the bar from the most detailed one to the least detailed one.
struct Detail {
  int bar, spark;
  bool lr, memory, elapsed;
};
constexpr Detail kDetails[] = {{20, 20, true, true, true},  {20, 10, true, true, true},   {10, 10, true, true, true},
                               {10, 10, false, true, true}, {10, 10, false, false, true}, {0, 10, false, false, true},
                               {0, 8, false, false, false}, {0, 0, false, false, false}};

std::string memory_text(const ProgressState& s) {
  return s.memory > 0 ? print("%lld MiB", static_cast<long long>(s.memory >> 20)) : "";
}

double part_of(const ProgressState& s) {
  return s.total > 0 ? std::clamp(static_cast<double>(s.step) / static_cast<double>(s.total), 0.0, 1.0) : 0;
}

std::string detailed(const ProgressState& s, const Detail& d, const Course* loss) {
  std::string line = print("%3d%%", static_cast<int>(part_of(s) * 100));
  if (d.bar > 0) {
    const auto full = static_cast<size_t>(part_of(s) * d.bar);
    line += "|" + std::string(full, '#') + std::string(static_cast<size_t>(d.bar) - full, ' ') + "|";
  }
  line += " " + steps(s);
  if (d.elapsed) {
    line += " [" + format_duration(s.seconds) + "<" + format_duration(seconds_left(s)) +
            print(", %.1f samples/s]", s.samples_per_s);
  } else {
    line += " [" + format_duration(seconds_left(s)) + print(" left, %.1f/s]", s.samples_per_s);
  }
  line += print(" loss %.4f", s.loss);
  const std::string spark = loss && d.spark > 0 ? loss->sparkline(d.spark) : "";
  if (!spark.empty()) line += " " + spark;
  if (d.lr) line += print(" lr %.3g", s.lr);
  if (d.memory && s.memory > 0) line += " " + memory_text(s);
  if (s.skipped > 0) line += " skipped " + std::to_string(s.skipped);
  return line;
}

std::string terse(const ProgressState& s, bool rate) {
  std::string line = steps(s) + " <" + format_duration(seconds_left(s));
  if (rate) line += print(s.samples_per_s < 100 ? " %.1f/s" : " %.0f/s", s.samples_per_s);
  line += print(" loss %.3g", s.loss);
  if (s.skipped > 0) line += " skip " + std::to_string(s.skipped);
  return line;
}

}  // namespace

std::string progress_bar(const ProgressState& s, int width, const Course* loss) {
  for (const Detail& d : kDetails) {
    std::string line = detailed(s, d, loss);
    if (display_width(line) <= width) return line;
  }
  for (const bool rate : {true, false}) {
    std::string line = terse(s, rate);
    if (display_width(line) <= width) return line;
  }
  return terse(s, false).substr(0, static_cast<size_t>(std::max(0, width)));
}

std::string progress_line(const ProgressState& s) {
  std::string line = "step " + steps(s) + print("  epoch %.2f  loss %.4f  lr %.3g", s.epoch, s.loss, s.lr) +
                     print("  %.1f samples/s", s.samples_per_s) + "  elapsed " + format_duration(s.seconds);
  if (s.total > 0) line += "  left " + format_duration(seconds_left(s));
  if (s.memory > 0) line += "  " + memory_text(s);
  if (s.skipped > 0) line += "  skipped " + std::to_string(s.skipped);
  return line;
}

std::string progress_json(const ProgressState& s) {
  const auto number = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(); };
  const nlohmann::ordered_json line{{"id", "PROGRESS"},
                                    {"level", "info"},
                                    {"message", progress_line(s)},
                                    {"step", s.step},
                                    {"steps", s.total},
                                    {"epoch", number(s.epoch)},
                                    {"loss", number(s.loss)},
                                    {"lr", number(s.lr)},
                                    {"samples_per_s", number(s.samples_per_s)},
                                    {"seconds", number(s.seconds)},
                                    {"seconds_left", number(seconds_left(s))},
                                    {"skipped", s.skipped}};
  return line.dump();
}

namespace {

// Formats an amount: "102 of 300 MB", "1,024 of 6,000 rows"; without a total "1,024 rows".
std::string amount(const ActivityState& s) {
  const bool bytes = s.unit == "B";
  const auto text = [&](int64_t n) { return bytes ? std::to_string(n / 1'000'000) : with_thousands(n); };
  const std::string unit = bytes ? "MB" : s.unit;
  return s.total > 0 ? cat(text(s.done), " of ", text(s.total), " ", unit) : cat(text(s.done), " ", unit);
}

// Returns an upper limit for the columns that the text takes. Characters beyond ASCII may be two columns wide.
int most_columns(const std::string& text) {
  return display_width(text) + static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xc0) == 0xc0;
         }));
}

// Cuts the text to at most `columns`, between two characters, and ends it with "...".
std::string shortened(std::string text, int columns) {
  if (most_columns(text) <= columns) return text;
  while (!text.empty() && most_columns(text) > std::max(0, columns - 3)) {
    while ((static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    text.pop_back();
  }
  return columns < 3 ? text : text + "...";
}

}  // namespace

std::string activity_line(const ActivityState& s, int width) {
  const std::string what = printable(s.what);
  std::vector<std::string> details;  // sorted by importance
  const double part = s.total > 0 ? std::min(1.0, static_cast<double>(s.done) / static_cast<double>(s.total)) : 0;
  if (s.total > 0) details.push_back(print("%3d%%", static_cast<int>(part * 100)));
  if (s.done > 0 || s.total > 0) details.push_back(amount(s));
  if (part > 0)
    details.push_back(cat("[", format_duration(s.seconds), "<", format_duration(s.seconds / part - s.seconds), "]"));
  for (;; details.pop_back()) {
    std::string after;
    for (const std::string& d : details) after += "  " + d;
    if (most_columns(what + after) <= width) return what + after;
    if (details.size() <= 1)
      return shortened(what, width - most_columns(after)) + (most_columns(after) < width ? after : "");
  }
}

Progress::Progress(std::FILE* out, int64_t every) : Progress(out, every, cli::draws(::fileno(out)), 0, has_blocks()) {}

Progress::Progress(std::FILE* out, int64_t every, bool bar, int width, bool blocks)
    : out_(out), every_(std::max<int64_t>(1, every)), bar_(bar), width_(width), blocks_(blocks) {}

int Progress::columns() const {
  winsize w{};
  if (width_ > 0) return width_;
  return ::ioctl(::fileno(out_), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

void Progress::update(const ProgressState& s) {
  last_ = s;
  loss_.add(s.loss);
  stale_ = true;
  const bool end = s.total > 0 && s.step >= s.total;
  if (bar_) {
    if (any_ && !end && s.seconds - drawn_at_ < kRedrawSeconds) return;
    draw();
  } else if (end || s.step % every_ == 0) {
    print_line();
    std::fflush(out_);
    stale_ = false;
  }
  any_ = true;
}

void Progress::draw() {
  put(progress_bar(last_, columns() - kFree, blocks_ ? &loss_ : nullptr));
  drawn_at_ = last_.seconds;
  shown_ = true;
  stale_ = false;
}

// Prints the last state as a plain line of text or JSON.
void Progress::print_line() const {
  const bool json = log_format() == LogFormat::json;
  std::fprintf(out_, "%s\n", (json ? progress_json(last_) : progress_line(last_)).c_str());
}

// Replaces the current line of the terminal.
void Progress::put(const std::string& line) {
  const std::string text = clear_line(drawn_, columns(), reflows()) + line;
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  drawn_ = display_width(line);
}

void Progress::activity(const ActivityState* state) {
  if (!bar_) return;
  active_ = state ? std::optional(*state) : std::nullopt;
  if (state) {
    put(activity_line(*state, columns() - kFree));
  } else if (shown_) {
    draw();
  } else {
    put("");
  }
}

void Progress::message(const std::string& text) {
  if (shows_line()) put("");
  std::fprintf(out_, "%s\n", text.c_str());
  if (active_) {
    put(activity_line(*active_, columns() - kFree));
  } else if (shown_) {
    draw();
  }
  std::fflush(out_);
}

void Progress::done() {
  if (stale_ && bar_) draw();
  if (stale_ && !bar_) print_line();
  if (shown_) std::fputc('\n', out_);
  std::fflush(out_);
  shown_ = stale_ = any_ = false;
  drawn_ = 0;
}

}  // namespace amp
