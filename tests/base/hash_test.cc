// Test vectors of FIPS 180-4, NIST CAVP and RFC 4231 (HMAC).
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

TEST_CASE("HMAC-SHA256 gives the published digests", "[hash]") {
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hmac_sha256({}, {}) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST_CASE("secrets are compared as a whole", "[hash]") {
  CHECK(equal_secrets("abc", "abc"));
  CHECK(equal_secrets("", {}));
  CHECK_FALSE(equal_secrets("abc", "abd"));
  CHECK_FALSE(equal_secrets("abc", "ab"));
  CHECK_FALSE(equal_secrets("abc", ""));
}
