// Escaping of untrusted text for terminals: C0, DEL, C1, marks of direction and bytes that are not UTF-8.
#include "base/text.h"

#include <catch2/catch_all.hpp>
#include <nlohmann/json.hpp>

#include "base/terminal_text.h"

using namespace amp;

namespace {
const std::string kEscape = "a\x1b[31mb\x07",
                  kC1 =
                      "a\xc2\x9b"
                      "31mb",
                  kBidi =
                      "a\xe2\x80\xae"
                      "b\xe2\x81\xa6";
}  // namespace

TEST_CASE("names for terminals have no controls, and are cut") {
  CHECK(printable("Ünïcode") == "Ünïcode");
  CHECK(printable(kEscape) == "a\\x1b[31mb\\x07");
  CHECK(printable(kC1) == "a\\xc2\\x9b31mb");
  CHECK(printable(kBidi) == "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6");
  CHECK(printable("a\x9b\xff") == "a\\x9b\\xff");
  CHECK(printable("a\nb\tc") == "a\\x0ab\\x09c");
  CHECK(printable(std::string(300, 'a')) == std::string(200, 'a') + "...");
}

TEST_CASE("messages for terminals keep lines and tabs, and are not cut") {
  CHECK(printable_lines("a\nb\tc") == "a\nb\tc");
  CHECK(printable_lines("a\r" + kEscape + kC1) == "a\\x0da\\x1b[31mb\\x07a\\xc2\\x9b31mb");
  CHECK(printable_lines(kBidi + "\xff") == "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xff");
  CHECK(printable_lines(std::string(300, 'a')).size() == 300);
}

TEST_CASE("JSON for terminals has no controls, and the same strings") {
  const nlohmann::json j = {{"name", kEscape + kC1 + kBidi + "\x7f é"}, {"lines", "a\nb"}};
  const std::string text = printable_json(j.dump(2));
  CHECK(nlohmann::json::parse(text) == j);
  CHECK(printable_lines(text) == text);
}
