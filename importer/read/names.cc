#include "importer/read/names.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

// Returns the offset of the first byte that is not well-formed UTF-8 (RFC 3629), or npos.
size_t utf8_fault(const std::string& s) {
  for (size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    const size_t length = c < 0x80                ? 1
                          : c >= 0xc2 && c < 0xe0 ? 2
                          : c >= 0xe0 && c < 0xf0 ? 3
                          : c >= 0xf0 && c < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || i + length > s.size()) return i;
    uint32_t point = length == 1 ? c : c & (0xff >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto d = static_cast<unsigned char>(s[i + k]);
      if ((d & 0xc0) != 0x80) return i;
      point = point << 6 | (d & 0x3f);
    }
    const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    if (overlong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return i;
    i += length;
  }
  return std::string::npos;
}

// Returns the path of the innermost module, which is the last but one entry: "bert.encoder" for "['', 'bert',
// 'bert.encoder', 'linear']".
std::string innermost_scope(const std::string& list) {
  std::vector<std::string> items;
  for (size_t at = list.find('\''); at != std::string::npos; at = list.find('\'', at + 1)) {
    const size_t end = list.find('\'', at + 1);
    if (end == std::string::npos) break;
    items.push_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return items.size() < 2 ? "" : items[items.size() - 2];
}

}  // namespace

void check_name(const std::string& name, const char* what) {
  constexpr size_t kLongest = 4096;
  if (name.empty()) fail(Exit::model, "E_NAME", cat("a ", what, " has no name"));
  if (name.size() > kLongest)
    fail(Exit::model, "E_NAME", cat(what, " name of ", name.size(), " bytes: '", printable(name), "'"));
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    fail(Exit::model, "E_NAME", cat(what, " name with control characters: '", printable(name), "'"));
  }
  if (const size_t at = utf8_fault(name); at != std::string::npos) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(name[at]));
    fail(Exit::model, "E_UTF8", cat(what, " name is not UTF-8: byte 0x", hex, " at offset ", at));
  }
}

std::string module_path(const onnx::NodeProto& node) {
  for (const auto& p : node.metadata_props()) {
    if (p.key() == "pkg.torch.onnx.name_scopes") return innermost_scope(p.value());
  }
  const std::string& name = node.name();
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || slash == 0) return "";
  std::string path = name.substr(name[0] == '/' ? 1 : 0, slash - (name[0] == '/' ? 1 : 0));
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

}  // namespace amp
