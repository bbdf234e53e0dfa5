// torch.optim.lr_scheduler.OneCycleLR (Smith and Topin 2017): up from lr / div_factor over pct_start of the run, down
// to lr / div_factor / final_div_factor, in two phases or (three_phase) in three; the momentum is not cycled.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline const ScheduleRow kOneCycle{
    "one_cycle",
    {{"pct_start", "0.3", 0, 1},
     {"div_factor", "25", 1e-300},
     {"final_div_factor", "1e4", 1e-300},
     {"anneal_strategy", "cos", 0, 0, {"cos", "linear"}},
     {"three_phase", "false", 0, 0, {"false", "true"}}},
    [](const SchedulePoint& p) {
      const double start = p.lr / p.number("div_factor"), low = start / p.number("final_div_factor");
      const double pct = p.number("pct_start"), total = static_cast<double>(p.total), last = total - 1;
      const double at = std::min(static_cast<double>(p.step), last);
      const bool cosine = p.text("anneal_strategy") == "cos";
      const auto anneal = [cosine](double from, double to, double part) {
        return cosine ? to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1) : (to - from) * part + from;
      };
      const double peak = pct * total - 1;
      if (at <= peak) return anneal(start, p.lr, peak > 0 ? at / peak : 1);
      // As in torch a phase starts where the one before it ended, even when that lies before step 0.
      if (p.text("three_phase") == "true") {
        const double back = 2 * pct * total - 2;
        if (at <= back) return anneal(p.lr, start, (at - peak) / (back - peak));
        return anneal(start, low, last > back ? (at - back) / (last - back) : 1);
      }
      return anneal(p.lr, low, last > peak ? (at - peak) / (last - peak) : 1);
    },
    "up from lr / div_factor over pct_start of the run, down to lr / div_factor / final_div_factor",
    true};

}  // namespace amp
