// Resolves the inheritance of op-lists: the base of a list is loaded first, then the list's edits are applied. `chain`
// holds the names of the lists that are being loaded, to detect cycles. An error in a base list names that list and
// each list that extends it (Error::at).
#include "precision/op_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/near_path.h"
#include "base/text.h"
#include "precision/op_list_json.h"
#include "precision/presets.h"

namespace amp {

namespace fs = std::filesystem;

std::string_view name_of(OpClass c) {
  static constexpr std::string_view names[] = {"allow", "infer", "deny", "clear"};
  return names[static_cast<size_t>(c)];
}

std::string_view name_of(Precision p) {
  static constexpr std::string_view names[] = {"fp32", "fp16", "bf16", "low", "follow"};
  return names[static_cast<size_t>(p)];
}

const OpClassEntry* OpList::find(const std::string& domain, const std::string& op, const std::string& mode) const {
  const std::string keys[] = {(domain.empty() ? "ai.onnx" : domain) + "::" + op, mode.empty() ? op : op + "." + mode,
                              op, "*"};
  for (const std::string& key : keys) {
    const auto it = classes.find(key);
    if (it != classes.end()) return &it->second;
  }
  return nullptr;
}

static void set_class(OpList& list, const std::string& op, OpClass cls) {
  // Entries such as "Resize.linear" are removed, because the new entry "Resize" covers all modes.
  for (auto it = list.classes.lower_bound(op + "."); it != list.classes.end() && it->first.starts_with(op + ".");) {
    it = list.classes.erase(it);
  }
  list.classes[op] = {cls, list.name};
}

static void apply_edits(OpList& list, const OpListDoc& doc) {
  constexpr OpClass all[] = {OpClass::allow, OpClass::infer, OpClass::deny, OpClass::clear};
  std::map<std::string, OpClass> named;
  for (const OpClass c : all) {
    for (const std::string& op : doc.classes[static_cast<size_t>(c)].add) {
      const auto [it, fresh] = named.emplace(op, c);
      if (!fresh) {
        fail(Exit::usage, "E_OP_LIST_OVERLAP",
             cat("'", printable(op), "' is in ", name_of(it->second), " and ",
                 it->second == c ? "there again" : std::string(name_of(c))),
             "an operator belongs to one class");
      }
    }
  }
  for (const OpClass c : all) {
    const ClassEdit& edit = doc.classes[static_cast<size_t>(c)];
    if (edit.replace) std::erase_if(list.classes, [&](const auto& e) { return e.second.cls == c; });
    for (const std::string& op : edit.remove) {
      const auto it = list.classes.find(op);
      const auto added = named.find(op);
      if (added != named.end() && added->second == c) {
        fail(Exit::usage, "E_OP_LIST_OVERLAP",
             cat("'", printable(op), "' is both added to and removed from ", name_of(c)));
      }
      if (it == list.classes.end() || it->second.cls != c) {
        list.warnings.push_back(cat(list.name, ": '", op, "' is removed from ", name_of(c), ", where it was not"));
      } else {
        set_class(list, op, OpClass::infer);
      }
    }
  }
  // Names without a mode are applied first, so that "Resize" in one class does not undo "Resize.linear" in another.
  for (const bool variants : {false, true}) {
    for (const auto& [op, c] : named) {
      if ((op.find('.') != std::string::npos && op.find("::") == std::string::npos) == variants) set_class(list, op, c);
    }
  }
}

static OpList resolve(std::string_view text, const std::string& name, const fs::path& folder, bool is_preset,
                      std::vector<std::string>& chain);

static std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail(Exit::usage, "E_OP_LIST_EXTENDS", cat("cannot read the op-list '", printable(path.string()), "'"));
  return text.str();
}

static OpList open(const std::string& name, const fs::path& folder, std::vector<std::string>& chain) {
  const std::string_view text = preset_text(name);
  const fs::path path = fs::path(name).is_absolute() ? fs::path(name) : folder / name;
  std::error_code none;
  const std::string id = text.empty() ? fs::weakly_canonical(path, none).string() : name;
  if (std::find(chain.begin(), chain.end(), id) != chain.end()) {
    chain.push_back(id);
    fail(Exit::usage, "E_OP_LIST_EXTENDS", cat("op-lists extend one another in a circle: ", join(chain, " -> ")));
  }
  chain.push_back(id);
  if (!text.empty()) return resolve(text, name, {}, true, chain);
  if (!fs::is_regular_file(path, none)) {
    const std::vector<std::string> presets = preset_names();
    std::vector<std::string> words = presets;
    words.emplace_back("auto");  // "auto" is a value of --amp_level, but not a list
    const std::string near = nearest(name, words), hint = near_path_hint(path.string());
    fail(Exit::usage, "E_OP_LIST_EXTENDS",
         cat("'", printable(name), "' is neither a preset (", join(presets, ", "), ") nor a file"),
         near.empty() ? hint : cat("did you mean '", near, "'?"));
  }
  return resolve(read_file(path), path.filename().string(), path.parent_path(), false, chain);
}

static OpList resolve(std::string_view text, const std::string& name, const fs::path& folder, bool is_preset,
                      std::vector<std::string>& chain) try {
  const OpListDoc doc = parse_op_list_doc(text);
  const std::string base = doc.extends.value_or("O1");
  if (is_preset && !doc.extends) bug(cat("preset ", name, " does not say what it extends"));
  OpList list;
  if (base != "none") {
    try {
      list = open(base, folder, chain);
    } catch (Error& e) {
      e.at("extends");
      throw;
    }
  }
  list.name = name;
  list.graph = doc.graph;
  list.recorded = doc.recorded;
  if (doc.dtype) list.dtype = doc.dtype;
  if (doc.propagation) list.propagation = *doc.propagation;
  apply_edits(list, doc);
  for (size_t i = 0; i < doc.rules.size(); ++i) {
    list.rules.push_back(doc.rules[i]);
    PrecisionRule& rule = list.rules.back();
    if (rule.source.empty()) rule.source = cat("rule ", i + 1, " of ", name);
  }
  doc.edit_loss_scale(list.loss_scale);
  return list;
} catch (Error& e) {
  e.at(is_preset ? cat("preset ", name) : cat("op-list ", printable(name)));
  throw;
}

OpList parse_op_list(std::string_view text, const std::string& file_name) {
  std::vector<std::string> chain = {file_name};
  const fs::path path(file_name);
  return resolve(text, path.filename().string(), path.parent_path(), false, chain);
}

OpList preset(const std::string& name) {
  if (preset_text(name).empty()) {
    const std::vector<std::string> presets = preset_names();
    const std::string near = nearest(name, presets);
    fail(Exit::usage, "E_OP_LIST_EXTENDS", cat("'", printable(name), "' is not a preset: ", join(presets, ", ")),
         near.empty() ? "" : cat("did you mean '", near, "'?"));
  }
  std::vector<std::string> chain;
  return open(name, {}, chain);
}

OpList load_op_list(const std::string& name_or_path) {
  std::vector<std::string> chain;
  return open(name_or_path, {}, chain);
}

}  // namespace amp
