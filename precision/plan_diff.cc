// Compares two plan files as JSON. Nodes that differ only in reason or storage are counted but not listed, so that the
// changes of compute type can be found easily.
#include "precision/plan_diff.h"

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "precision/op_list.h"
#include "precision/op_list_json.h"

namespace amp {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson read(const std::string& text, const std::string& name) {
  try {
    parse_op_list_doc(text);  // checks keys, types and values
  } catch (Error& e) {
    e.at(printable(name));
    throw;
  }
  OrderedJson json = OrderedJson::parse(text);
  if (!json.contains("nodes")) {
    fail(Exit::usage, "E_OP_LIST_KEY", cat(printable(name), " is an op-list, not the plan of a model: it has no nodes"),
         "`plan MODEL.onnx --precision_plan FILE --out plan.json` makes the plan");
  }
  return json;
}

std::string shown(const OrderedJson& v) { return v.is_string() ? printable(v.get<std::string>()) : v.dump(); }

class Diff {
 public:
  Diff(OrderedJson a, OrderedJson b) : a_(std::move(a)), b_(std::move(b)) {}

  std::string run(const std::string& a_name, const std::string& b_name) {
    if (a_["graph"] != b_["graph"])
      line(cat("the plans were made for different graphs: ", shown(a_["graph"]), " and ", shown(b_["graph"])));
    for (const char* key : {"dtype", "propagation"}) change(key, a_[key], b_[key]);
    for (const auto& [key, value] : a_["loss_scale"].items()) change("loss_scale." + key, value, b_["loss_scale"][key]);
    classes();
    rules(a_, b_, "- ");
    rules(b_, a_, "+ ");
    nodes();
    if (lines_ == 0) return "the plans are the same\n";
    out_ << types_ << " nodes compute in another type, " << others_ << " in the same for another reason or storage, "
         << missing_ << " are in one plan only (- " << printable(a_name) << ", + " << printable(b_name) << ")\n";
    return out_.str();
  }

 private:
  void line(const std::string& text) {
    out_ << text << '\n';
    ++lines_;
  }
  void change(const std::string& what, const OrderedJson& from, const OrderedJson& to) {
    if (from != to) line(cat(what, ": ", shown(from), " -> ", shown(to)));
  }

  static std::map<std::string, std::string> classes_of(const OrderedJson& plan) {
    std::map<std::string, std::string> out;
    for (const char* c : {"allow", "infer", "deny", "clear"}) {
      for (const OrderedJson& op : plan.value(c, OrderedJson::array())) out[op.get<std::string>()] = c;
    }
    return out;
  }
  void classes() {
    const std::map<std::string, std::string> a = classes_of(a_), b = classes_of(b_);
    std::map<std::string, std::string> all = a;
    all.insert(b.begin(), b.end());
    for (const auto& [op, unused] : all) {
      const auto in =
          [&op = op](const std::map<std::string, std::string>& m) {  // clang 16 cannot capture a structured binding
            return m.count(op) ? m.at(op) : "unlisted";
          };
      if (in(a) != in(b)) line(cat("operator ", printable(op), ": ", in(a), " -> ", in(b)));
    }
  }

  // Lists the rules in `from` that are missing in `other`. The field `source` of a rule is not compared.
  void rules(const OrderedJson& from, const OrderedJson& other, const std::string& sign) {
    const auto bare = [](OrderedJson rule) {
      rule.erase("source");
      return rule;
    };
    for (const OrderedJson& rule : from.value("rules", OrderedJson::array())) {
      bool found = false;
      for (const OrderedJson& o : other.value("rules", OrderedJson::array())) found = found || bare(o) == bare(rule);
      if (!found) line(cat(sign, "rule ", bare(rule).dump()));
    }
  }

  void nodes() {
    std::map<std::string, const OrderedJson*> b;
    for (const OrderedJson& n : b_["nodes"]) b[n["name"].get<std::string>()] = &n;
    for (const OrderedJson& n : a_["nodes"]) {
      const auto it = b.find(n["name"].get<std::string>());
      if (it == b.end()) {
        line(cat("- node ", title(n), ": ", shown(n["compute"])));
        ++missing_;
        continue;
      }
      compare(n, *it->second);
      b.erase(it);
    }
    for (const OrderedJson& n : b_["nodes"]) {
      const auto it = b.find(n["name"].get<std::string>());
      if (it == b.end() || it->second != &n) continue;
      line(cat("+ node ", title(n), ": ", shown(n["compute"])));
      ++missing_;
    }
  }

  void compare(const OrderedJson& a, const OrderedJson& b) {
    const auto reason = [](const OrderedJson& n) {
      return cat(shown(n.value("pass", OrderedJson())), ", ", shown(n.value("rule", OrderedJson())));
    };
    if (a["compute"] != b["compute"]) {
      line(cat("node ", title(a), ": ", shown(a["compute"]), " (", reason(a), ") -> ", shown(b["compute"]), " (",
               reason(b), ")"));
      ++types_;
    } else if (other(a, b)) {
      // The node is only counted, because a line for each such node would hide the changes of compute type.
      ++others_;
      ++lines_;
    }
  }
  // Returns whether class, pass, rule or storage differ. Costs are not compared, because they depend on the batch for
  // which they were measured. Storage is compared only if both plans have it.
  static bool other(const OrderedJson& a, const OrderedJson& b) {
    for (const char* key : {"class", "pass", "rule"}) {
      if (a.value(key, OrderedJson()) != b.value(key, OrderedJson())) return true;
    }
    return a.contains("storage") && b.contains("storage") && a["storage"] != b["storage"];
  }
  static std::string title(const OrderedJson& n) {
    return cat("'", shown(n["name"]), "' (", shown(n.value("op", OrderedJson("?"))), ")");
  }

  OrderedJson a_, b_;
  std::ostringstream out_;
  int lines_ = 0, types_ = 0, others_ = 0, missing_ = 0;
};

}  // namespace

std::string diff_plans(const std::string& a, const std::string& a_name, const std::string& b,
                       const std::string& b_name) {
  OrderedJson ja = read(a, a_name), jb = read(b, b_name);
  for (OrderedJson* j : {&ja, &jb}) {
    for (const char* key : {"graph", "dtype", "propagation"}) {
      if (!j->contains(key)) (*j)[key] = "";
    }
    if (!j->contains("loss_scale")) (*j)["loss_scale"] = OrderedJson::object();
  }
  return Diff(std::move(ja), std::move(jb)).run(a_name, b_name);
}

}  // namespace amp
