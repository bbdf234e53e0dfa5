// torch.optim.lr_scheduler.OneCycleLR (Smith and Topin 2017). The rate rises from lr / div_factor over pct_start of the
// run, then falls to lr / div_factor / final_div_factor, in two or (three_phase) three phases. cycle_momentum changes
// the momentum, or beta1, inversely: from max_momentum down to base_momentum and back.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

struct OneCycle {
  // Returns a value of the cycle: `start` at the beginning, `peak` after the first phase, `back` after the second of
  // three phases, and `end` at the end. As in torch, a phase starts at the end of the previous one, even if that is
  // before step 0.
  static double at(const SchedulePoint& p, double start, double peak, double back, double end) {
    const double pct = p.number("pct_start"), total = static_cast<double>(p.total), last = total - 1;
    const double at = std::min(static_cast<double>(p.step), last);
    const bool cosine = p.text("anneal_strategy") == "cos";
    const auto anneal = [cosine](double from, double to, double part) {
      return cosine ? to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1) : (to - from) * part + from;
    };
    const double top = pct * total - 1;
    if (at <= top) return anneal(start, peak, top > 0 ? at / top : 1);
    if (p.text("three_phase") == "true") {
      const double down = 2 * pct * total - 2;
      if (at <= down) return anneal(peak, back, (at - top) / (down - top));
      return anneal(back, end, last > down ? (at - down) / (last - down) : 1);
    }
    return anneal(peak, end, last > top ? (at - top) / (last - top) : 1);
  }
  static double rate(const SchedulePoint& p) {
    const double start = p.lr / p.number("div_factor");
    return at(p, start, p.lr, start, start / p.number("final_div_factor"));
  }
  static std::optional<double> momentum(const SchedulePoint& p) {
    if (p.text("cycle_momentum") != "true") return std::nullopt;
    const double high = p.number("max_momentum");
    return at(p, high, p.number("base_momentum"), high, high);
  }
};

inline const ScheduleRow kOneCycle{
    "one_cycle",
    {{"pct_start", "0.3", 0, 1},
     {"div_factor", "25", 1e-300},
     {"final_div_factor", "1e4", 1e-300},
     {"anneal_strategy", "cos", 0, 0, {"cos", "linear"}},
     {"three_phase", "false", 0, 0, {"false", "true"}},
     {"cycle_momentum", "false", 0, 0, {"false", "true"}},
     {"base_momentum", "0.85", 0, 0.999999999},
     {"max_momentum", "0.95", 0, 0.999999999}},
    OneCycle::rate,
    "up from lr / div_factor over pct_start of the run, down to lr / div_factor / final_div_factor",
    true,
    OneCycle::momentum};

}  // namespace amp
