// Refuses binary columnar files with a helpful error. docs/adding_a_reader.md explains why they are not supported.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/reader.h"
#include "data/text_file.h"

namespace amp {

namespace {

struct Columnar {
  std::string_view what;
  std::vector<std::string_view> extensions, magic;  // magic: first and last bytes of the file
  std::string_view pandas;                          // the function of pandas that reads such files
};

const std::vector<Columnar>& columnar_kinds() {
  static const std::vector<Columnar> kinds = {
      {"Parquet", {".parquet", ".pq"}, {"PAR1", "PARE"}, "read_parquet"},
      {"Arrow", {".arrow", ".arrows", ".ipc"}, {"ARROW1"}, "read_feather"},
      {"Feather", {".feather"}, {"FEA1"}, "read_feather"},
      {"ORC", {".orc"}, {}, "read_orc"},
  };
  return kinds;
}

}  // namespace

void refuse_columnar(const std::string& path, std::string_view bytes) {
  const std::string name = without_gz(path);
  for (const Columnar& kind : columnar_kinds()) {
    const bool called = std::any_of(kind.extensions.begin(), kind.extensions.end(),
                                    [&](std::string_view e) { return name.ends_with(e); });
    const bool is_one = std::any_of(kind.magic.begin(), kind.magic.end(), [&](std::string_view m) {
      return bytes.size() > 2 * m.size() && bytes.starts_with(m) && bytes.ends_with(m);
    });
    if (!called && !is_one) continue;
    fail(Exit::data, "E_DATA_COLUMNAR",
         cat("'", printable(path), "' is ", kind.what == "Arrow" || kind.what == "ORC" ? "an " : "a ", kind.what,
             " file, which is not read"),
         cat("write its rows as CSV or JSON lines first: python3 -c \"import pandas; pandas.", kind.pandas, "('",
             printable(path), "').to_csv('data.csv', index=False)\"; docs/data.md has more ways"));
  }
}

}  // namespace amp
