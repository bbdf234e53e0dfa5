// The manifest's reader for texts with a valid checksum and unexpected contents.
#include "trainer/loop/manifest.h"

#include <catch2/catch_all.hpp>

#include "base/checksum.h"
#include "base/error.h"

using namespace amp;

namespace {

std::string with_checksum(std::string text) {
  text += ",\n \"manifest_crc32c\": \"";
  const std::string crc = crc32c(text.data(), static_cast<int64_t>(text.size()));
  return text + crc + "\"\n}\n";
}

std::string with_state(const std::string& state) {
  return with_checksum(
      cat(R"({"format": "onnx-amp-finetune checkpoint", "version": )", Manifest::kVersion,
          R"(, "step": 1, "hashes": {}, "files": [{"name": "a", "bytes": 1, "crc32c": "0"}], "state": )", state));
}

}  // namespace

TEST_CASE("a manifest with an object of very many keys is refused") {
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += cat(i == 0 ? "" : ",", "\"", i, "\": 0");
  try {
    parse_manifest(with_state(cat("{", keys, "}")));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.id() == "E_CKPT_MANIFEST");
    CHECK(e.fact().find("more than 10000 keys") != std::string::npos);
  }
}

TEST_CASE("a manifest whose state would take the stack is refused") {
  CHECK(parse_manifest(with_state(R"({"a": [[1]]})")).state == R"({"a":[[1]]})");
  const std::string deep = cat(R"({"a": )", std::string(200'000, '['), std::string(200'000, ']'), "}");
  try {
    parse_manifest(with_state(deep));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.id() == "E_CKPT_MANIFEST");
    CHECK(e.fact().find("nests deeper") != std::string::npos);
  }
}
