// Compares two precision plans.
#pragma once

#include <string>

namespace amp {

// Returns the differences of two plan files (texts of plan_to_json()), one per line. It compares the 16-bit type,
// propagation, the keys of the loss scale, the classes of operators, the rules, and the nodes (by name) with their
// compute and storage types. The last line has counts. Equal plans give "the plans are the same". Throws usage errors:
// E_OP_LIST_JSON, and E_OP_LIST_KEY if a text is not a plan with nodes.
std::string diff_plans(const std::string& a, const std::string& a_name, const std::string& b,
                       const std::string& b_name);

}  // namespace amp
