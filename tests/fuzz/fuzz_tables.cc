// Fuzzes the readers of text tables; the first byte selects the format.
#include "data/reader.h"
#include "data/table.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  if (size == 0) return 0;
  const TableReader& format = *table_readers()[data[0] % table_readers().size()];
  return fuzz::accepts_or_refuses([&] {
    const Table table = Table::parse(fuzz::text(data + 1, size - 1), "fuzz", format);
    for (int64_t row = 0; row < table.rows(); ++row) {
      for (size_t c = 0; c < table.columns().size(); ++c) {
        if (table.has(row, c) && !table.is_json(row, c)) table.text(row, c);
      }
    }
  });
}
