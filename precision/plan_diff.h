// What two plans decide differently.
#pragma once

#include <string>

namespace amp {

// Both texts are plan files (plan_to_json). A line each for: 16-bit type, propagation, loss-scale keys; operators whose
// class differs; rules that one of them lacks; nodes (by name) whose compute or storage type differs, with the
// reasons; nodes that one of them lacks. Ends with a line of counts; "the plans are the same" when nothing differs.
// Usage errors: E_OP_LIST_JSON, E_OP_LIST_KEY when a text is no plan with nodes.
std::string diff_plans(const std::string& a, const std::string& a_name, const std::string& b,
                       const std::string& b_name);

}  // namespace amp
