// SHA-256 (OpenSSL's libcrypto), for fingerprints in run.json and for names and checksums of generated kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct evp_md_ctx_st;  // EVP_MD_CTX

namespace amp {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  std::string hex();  // the digest in lower case; ends the computation

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string sha256(const void* data, size_t bytes);
// Returns the SHA-256 of a file's contents. Throws E_FILE_OPEN (Exit::usage) if the file cannot be read.
std::string file_sha256(const std::string& path);

}  // namespace amp
