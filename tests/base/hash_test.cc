// Test vectors of FIPS 180-4 and NIST CAVP.
#include "base/hash.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "base/error.h"

using namespace amp;

static std::string of(const std::string& s) { return sha256(s.data(), s.size()); }

TEST_CASE("SHA-256 gives the published digests", "[hash]") {
  CHECK(of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(of(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes are cut", "[hash]") {
  const std::string text(1000, 'q');
  for (const size_t piece : {1u, 7u, 63u, 64u, 65u, 200u}) {
    Sha256 s;
    for (size_t i = 0; i < text.size(); i += piece) s.update(text.data() + i, std::min(piece, text.size() - i));
    CHECK(s.hex() == of(text));
  }
}

TEST_CASE("a file that cannot be read is a usage error", "[hash]") {
  try {
    file_sha256("/no/such/file");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_FILE_OPEN");
  }
}
