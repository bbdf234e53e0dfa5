// Compares two precision plans.
#pragma once

#include <string>

namespace amp {

// Returns the differences of two plan files (texts of plan_to_json()). There is one line for each different 16-bit
// type, propagation or loss-scale key; operator whose class differs; rule in only one plan; node (by name) whose
// compute or storage type differs, with the reasons; and node in only one plan. The last line has counts. Equal plans
// give "the plans are the same". Throws usage errors: E_OP_LIST_JSON, and E_OP_LIST_KEY if a text is not a plan with
// nodes.
std::string diff_plans(const std::string& a, const std::string& a_name, const std::string& b,
                       const std::string& b_name);

}  // namespace amp
