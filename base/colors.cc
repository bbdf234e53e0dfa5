#include "base/colors.h"

#include <atomic>

namespace amp {

namespace {
std::atomic<bool> colored{false};
constexpr const char* kInks[] = {"\x1b[1;31m", "\x1b[33m", "\x1b[36m", "\x1b[0m"};
}  // namespace

void set_colors(bool on) { colored = on; }

const char* ink(Ink which) { return colored ? kInks[static_cast<int>(which)] : ""; }

}  // namespace amp
