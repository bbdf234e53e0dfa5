// Writes and reads the JSON text of the manifest with its checksum. parse_manifest() verifies the checksum on the raw
// bytes before it parses JSON.

#include "trainer/loop/manifest.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"

namespace amp {

namespace {
using OrderedJson = nlohmann::ordered_json;
constexpr const char* kFormat = "onnx-amp-finetune checkpoint";
constexpr std::string_view kBefore = ",\n \"manifest_crc32c\": \"", kAfter = "\"\n}\n";
constexpr size_t kDigits = 8, kEnd = kDigits + kAfter.size();

[[noreturn]] void damaged(const std::string& fact) {
  fail(Exit::checkpoint, "E_CKPT_MANIFEST", "manifest.json " + fact,
       "the checkpoint is damaged: resume from another one");
}

bool plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string::npos;
}

// Converts the JSON to a Manifest and checks all types, because the checksum proves that the bytes are unchanged, but
// not that this program wrote them.
Manifest interpret(const OrderedJson& j) {
  if (j.at("format").get<std::string>() != kFormat) damaged("is of another format");
  const auto version = j.at("version").get<int64_t>();
  if (version > Manifest::kVersion) {
    fail(Exit::checkpoint, "E_CKPT_VERSION",
         cat("the checkpoint has format version ", version, ", this program reads up to ", Manifest::kVersion),
         "resume with the newer program that wrote it");
  }
  Manifest m;
  m.step = j.at("step").get<int64_t>();
  m.hashes = j.at("hashes").get<std::map<std::string, std::string>>();
  for (const OrderedJson& f : j.at("files")) {
    m.files.push_back(
        {f.at("name").get<std::string>(), f.at("bytes").get<int64_t>(), f.at("crc32c").get<std::string>()});
    if (!plain_name(m.files.back().name)) damaged(cat("lists the file '", printable(m.files.back().name), "'"));
  }
  const OrderedJson& state = j.at("state");
  if (!state.is_object() || m.step < 0 || m.files.empty()) damaged("lacks its state, step or files");
  m.state = state.dump();
  return m;
}
}  // namespace

std::string render_manifest(const Manifest& m) {
  OrderedJson j;
  j["format"] = kFormat;
  j["version"] = Manifest::kVersion;
  j["step"] = m.step;
  j["hashes"] = m.hashes;
  j["files"] = OrderedJson::array();
  for (const Manifest::File& f : m.files)
    j["files"].push_back({{"name", f.name}, {"bytes", f.size}, {"crc32c", f.crc32c}});
  try {
    j["state"] = OrderedJson::parse(m.state);
  } catch (const OrderedJson::exception& e) {
    bug(cat("the state of a checkpoint is not JSON: ", e.what()));
  }
  check(j["state"].is_object(), "the state of a checkpoint is not a JSON object");
  std::string text = j.dump(1);
  text.resize(text.size() - 2);  // removes "\n}"
  text += kBefore;
  const std::string crc = crc32c(text.data(), static_cast<int64_t>(text.size()));
  return text + crc + std::string(kAfter);
}

Manifest parse_manifest(std::string_view text) {
  if (text.size() < kBefore.size() + kEnd) damaged(cat("has only ", text.size(), " bytes"));
  const std::string_view body = text.substr(0, text.size() - kEnd);
  const std::string_view crc = text.substr(body.size(), kDigits);
  if (text.substr(text.size() - kAfter.size()) != kAfter || body.substr(body.size() - kBefore.size()) != kBefore) {
    damaged("does not end with its checksum");
  }
  if (crc != crc32c(body.data(), static_cast<int64_t>(body.size()))) damaged("does not match its checksum");
  try {
    if (const std::string excess = json_excess(text, true); !excess.empty()) damaged(excess);
    return interpret(OrderedJson::parse(text));
  } catch (const OrderedJson::exception& e) {
    damaged(cat("cannot be understood: ", printable(e.what())));
  }
}

}  // namespace amp
