// Compares two precision plans.
#pragma once

#include <string>

namespace amp {

// Both texts are plan files (plan_to_json). One line each for: 16-bit type, propagation, loss-scale keys; operators
// whose class differs; rules in only one plan; nodes (by name) whose compute or storage type differs, with the reasons;
// nodes in only one plan. Ends with a line of counts, or is "the plans are the same". Usage errors: E_OP_LIST_JSON, and
// E_OP_LIST_KEY if a text is not a plan with nodes.
std::string diff_plans(const std::string& a, const std::string& a_name, const std::string& b,
                       const std::string& b_name);

}  // namespace amp
