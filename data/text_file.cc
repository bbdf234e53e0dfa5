// Implements text_file.h: resolves names and patterns, reads files whole, and unpacks gzip with zlib. Unpacked text is
// in SpillBytes, which continue on disk. Its size is limited to 256 MiB or 100 times the input, whichever is larger, to
// stop decompression bombs.
#include "data/text_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/limits.h"
#include "base/mapped_file.h"
#include "base/spill.h"
#include "base/text.h"
#include "data/reader.h"

namespace amp {

namespace {

constexpr int64_t kSmall = int64_t{256} << 20;

[[noreturn]] void bad_gzip(const std::string& name, const std::string& why, const std::string& hint) {
  fail(Exit::data, "E_DATA_GZIP", cat("'", printable(name), "' ", why), hint);
}

struct Inflater {
  z_stream z{};
  Inflater() {
    // 15: largest window; 16: accepts only the gzip format
    if (inflateInit2(&z, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&z); }
};

}  // namespace

std::string without_gz(const std::string& path) {
  return path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
}

std::vector<std::string> files_named(const std::string& names) {
  if (names.empty() || path_exists(names)) return {names};
  std::vector<std::string> out;
  for (const std::string& part : split(names, ',')) {
    if (part.empty()) continue;
    if (part.find_first_of("*?[") == std::string::npos || path_exists(part)) {
      out.push_back(part);
      continue;
    }
    const std::vector<std::string> found = paths_matching(part);
    if (found.empty())
      fail(Exit::usage, "E_FILE_MISSING", cat("no file matches '", printable(part), "'"),
           "quote the pattern, so that the shell does not expand it, and check the folder");
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

FileBytes unpack(const FileBytes& packed, const std::string& name) {
  const int64_t most = std::max(kSmall, packed.size * kMostGrowth);
  Inflater in;
  const auto out = std::make_shared<SpillBytes>();
  int64_t capacity = std::min(most, std::max<int64_t>(1 << 16, packed.size * 4));
  out->reserve(static_cast<size_t>(capacity));
  int64_t used = 0, at = 0;
  while (true) {
    if (used == capacity) {
      if (used >= most)
        bad_gzip(name,
                 cat("holds more than ", most, " bytes in ", packed.size, ": it is refused as a decompression bomb"),
                 "unpack it with gunzip if it is what it should be");
      capacity = std::min(most, capacity * 2);
      out->reserve(static_cast<size_t>(capacity));
    }
    const int64_t give = std::min<int64_t>(packed.size - at, 1 << 30),
                  room = std::min<int64_t>(capacity - used, 1 << 30);
    in.z.next_in = packed.bytes.get() + at;
    in.z.avail_in = static_cast<uInt>(give);
    in.z.next_out = out->data() + used;
    in.z.avail_out = static_cast<uInt>(room);
    const int code = inflate(&in.z, Z_NO_FLUSH);
    at += give - in.z.avail_in;
    used += room - in.z.avail_out;
    if (code == Z_STREAM_END) {
      const uint8_t *const rest = packed.bytes.get() + at, *const end = packed.bytes.get() + packed.size;
      if (std::all_of(rest, end, [](uint8_t b) { return b == 0; })) break;  // padding after the last member
      if (inflateReset(&in.z) != Z_OK) bug("inflateReset");
      continue;
    }
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    const bool ended = at == packed.size && in.z.avail_out > 0;
    if (code == Z_BUF_ERROR && !ended) continue;
    if ((code == Z_OK || code == Z_BUF_ERROR) && ended)
      bad_gzip(name, cat("ends in the middle of its gzip data, after ", used, " bytes of text"),
               "copy the file again: it was cut short");
    if (code != Z_OK)
      bad_gzip(name, cat("is damaged at byte ", at, ": ", in.z.msg ? in.z.msg : "no gzip data"),
               "copy the file again, or unpack it with gunzip");
  }
  return {std::shared_ptr<uint8_t>(out, out->data()), used};
}

FileBytes read_text_file(const std::string& path) {
  FileBytes file = read_or_map(path);
  const bool gzip = file.size >= 2 && file.bytes.get()[0] == 0x1f && file.bytes.get()[1] == 0x8b;
  if (gzip) file = unpack(file, path);
  refuse_columnar(path, file.text());
  return file;
}

std::string read_head(const std::string& path, int64_t size) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);  // also reads plain files
  std::string out(static_cast<size_t>(size), '\0');
  const int got = file ? gzread(file.get(), out.data(), static_cast<unsigned>(size)) : -1;
  if (got < 0) return std::string(read_text_file(path).text().substr(0, out.size()));  // reading again throws the error
  out.resize(static_cast<size_t>(got));
  return out;
}

}  // namespace amp
