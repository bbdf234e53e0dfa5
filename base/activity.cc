// Implements Activity. No thread draws the display in the background: add() and reach() redraw it if enough time has
// passed. They skip the redraw if another thread is drawing.
#include "base/activity.h"

#include <mutex>
#include <utility>

namespace amp {

namespace {
ActivityDisplay display;
std::mutex display_mutex;
std::atomic<bool> wanted{false};   // whether a display is set
std::atomic<bool> taken{false};    // whether an activity has the display
std::atomic<bool> visible{false};  // whether a state is on the display
static_assert(std::atomic<bool>::is_always_lock_free);

using Clock = std::chrono::steady_clock;

Clock::rep ticks_after(Clock::time_point begin, double seconds) {
  const auto wait = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return (begin + wait).time_since_epoch().count();
}
}  // namespace

Activity::Activity(std::string what, std::string unit, int64_t total) {
  if (!wanted || taken.exchange(true)) return;
  shown_ = true;
  state_ = {std::move(what), std::move(unit), 0, total, 0};
  begin_ = Clock::now();
  next_ = ticks_after(begin_, kFirstSeconds);
}

Activity::Activity(std::string what) : Activity(std::move(what), "", 0) {
  if (!shown_) return;
  const std::lock_guard lock(display_mutex);
  show();
}

Activity::~Activity() {
  if (!shown_) return;
  {
    const std::lock_guard lock(display_mutex);
    if (visible && display) display(nullptr);
    visible = false;
  }
  taken = false;
}

void Activity::add(int64_t more) {
  if (!shown_) return;
  done_ += more;
  show_if_due();
}

void Activity::reach(int64_t done) {
  if (!shown_) return;
  done_ = done;
  show_if_due();
}

void Activity::show_if_due() {
  if (Clock::now().time_since_epoch().count() < next_) return;
  const std::unique_lock lock(display_mutex, std::try_to_lock);
  if (lock.owns_lock()) show();
}

void Activity::show() {
  if (!display) return;
  const Clock::time_point now = Clock::now();
  state_.done = done_;
  state_.seconds = std::chrono::duration<double>(now - begin_).count();
  next_ = ticks_after(now, kSeconds);
  visible = true;  // set before drawing: a signal handler that interrupts display() must erase the line
  display(&state_);
}

void set_activity_display(ActivityDisplay show) {
  const std::lock_guard lock(display_mutex);
  wanted = static_cast<bool>(show);
  display = std::move(show);
}

std::string name_in_folder(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

bool activity_is_shown() { return visible; }

}  // namespace amp
