#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace amp {

namespace {
constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidth = 20;

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

bool is_terminal(std::FILE* f) {
  const char* term = std::getenv("TERM");
  return ::isatty(::fileno(f)) == 1 && !(term && std::string(term) == "dumb");
}

int columns(std::FILE* f) {
  winsize w{};
  return ::ioctl(::fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
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

std::string progress_bar(const ProgressState& s, int width) {
  const double part =
      s.total > 0 ? std::clamp(static_cast<double>(s.step) / static_cast<double>(s.total), 0.0, 1.0) : 0;
  const auto full = static_cast<size_t>(part * kBarWidth);
  std::string line = print("%3d%%|", static_cast<int>(part * 100)) + std::string(full, '#') +
                     std::string(kBarWidth - full, ' ') + "| " + steps(s);
  line += " [" + format_duration(s.seconds) + "<" + format_duration(seconds_left(s)) +
          print(", %.1f samples/s]", s.samples_per_s);
  line += print(" loss %.4f lr %.3g", s.loss, s.lr);
  if (s.skipped > 0) line += " skipped " + std::to_string(s.skipped);
  if (width > 0 && line.size() > static_cast<size_t>(width)) line.resize(static_cast<size_t>(width));
  return line;
}

std::string progress_line(const ProgressState& s) {
  std::string line = "step " + steps(s) + print("  epoch %.2f  loss %.4f  lr %.3g", s.epoch, s.loss, s.lr) +
                     print("  %.1f samples/s", s.samples_per_s) + "  elapsed " + format_duration(s.seconds);
  if (s.total > 0) line += "  left " + format_duration(seconds_left(s));
  if (s.skipped > 0) line += "  skipped " + std::to_string(s.skipped);
  return line;
}

Progress::Progress(std::FILE* out, int64_t every) : Progress(out, every, is_terminal(out), 0) {}

Progress::Progress(std::FILE* out, int64_t every, bool bar, int width)
    : out_(out), every_(std::max<int64_t>(1, every)), bar_(bar), width_(width) {}

void Progress::update(const ProgressState& s) {
  last_ = s;
  stale_ = true;
  const bool end = s.total > 0 && s.step >= s.total;
  if (bar_) {
    if (any_ && !end && s.seconds - drawn_at_ < kRedrawSeconds) return;
    draw();
  } else if (end || s.step % every_ == 0) {
    std::fprintf(out_, "%s\n", progress_line(s).c_str());
    std::fflush(out_);
    stale_ = false;
  }
  any_ = true;
}

void Progress::draw() {
  // One column is left free: a full last column wraps on some terminals. ESC [K clears what the last state had beyond.
  const int width = width_ > 0 ? width_ : columns(out_);
  std::fprintf(out_, "\r%s\x1b[K", progress_bar(last_, width - 1).c_str());
  std::fflush(out_);
  drawn_at_ = last_.seconds;
  shown_ = true;
  stale_ = false;
}

void Progress::message(const std::string& text) {
  if (shown_) std::fputs("\r\x1b[K", out_);
  std::fprintf(out_, "%s\n", text.c_str());
  if (shown_) draw();
  std::fflush(out_);
}

void Progress::done() {
  if (stale_ && bar_) draw();
  if (stale_ && !bar_) std::fprintf(out_, "%s\n", progress_line(last_).c_str());
  if (shown_) std::fputc('\n', out_);
  std::fflush(out_);
  shown_ = stale_ = any_ = false;
}

}  // namespace amp
