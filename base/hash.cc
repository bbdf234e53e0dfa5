#include "base/hash.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/text.h"

namespace amp {

namespace {
using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is not to be had");
}

void Sha256::update(const void* data, size_t bytes) {
  check(EVP_DigestUpdate(context_.get(), data, bytes) == 1, "SHA-256 of further bytes");
}

std::string Sha256::hex() {
  Digest digest;
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1, "SHA-256's end");
  return to_hex({digest.data(), size});
}

std::string sha256(const void* data, size_t bytes) {
  Sha256 s;
  s.update(data, bytes);
  return s.hex();
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest;
  unsigned int size = 0;
  // OpenSSL would read a null key as "use the key of the previous call".
  const void* const bytes = key.empty() ? "" : key.data();
  check(HMAC(EVP_sha256(), bytes, static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()),
             message.size(), digest.data(), &size) != nullptr,
        "HMAC is not to be had");
  return to_hex({digest.data(), size});
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string file_sha256(const std::string& path) {
  const int fd = open_file(path.c_str(), O_RDONLY);
  if (fd < 0) fail(Exit::usage, "E_FILE_OPEN", cat("cannot open '", printable(path), "': ", std::strerror(errno)));
  Sha256 s;
  std::vector<char> buffer(1 << 20);
  int64_t n = 0;
  while ((n = read_fully(fd, buffer.data(), static_cast<int64_t>(buffer.size()))) > 0)
    s.update(buffer.data(), static_cast<size_t>(n));
  const int error = errno;
  close_file(fd);
  if (n < 0) fail(Exit::usage, "E_FILE_OPEN", cat("cannot read '", printable(path), "': ", std::strerror(error)));
  return s.hex();
}

}  // namespace amp
