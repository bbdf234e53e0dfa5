// SHA-256 and HMAC (OpenSSL's libcrypto). They are used for fingerprints in run.json, for names and checksums of
// generated kernels, and by the ranks of a run, which authenticate each other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace amp {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  std::string hex();  // returns the digest in lower case and ends the computation

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string sha256(const void* data, size_t bytes);
// Returns the SHA-256 of a file's contents. Throws E_FILE_OPEN (Exit::usage) if the file cannot be read.
std::string file_sha256(const std::string& path);

// Returns HMAC-SHA256 (RFC 2104) as hexadecimal digits in lower case. key: at most 1 GiB, may be empty.
std::string hmac_sha256(std::string_view key, std::string_view message);
// Compares two texts. The time depends on their lengths only, so it does not show how many characters are right.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace amp
