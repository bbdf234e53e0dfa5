// Times the reading of a table on one thread, for bench/reading_speed.py. Prints JSON with the wall and processor
// seconds until its rows are in memory (Table::read) and, with a target column, from there to the features and the
// target as numbers: the columns are guessed, fitted on all rows and applied, as training does with a new table.
//   table_speed FILE [TARGET]
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "bench/timing.h"
#include "data/features/decimal.h"
#include "data/features/features.h"
#include "data/features/guess.h"
#include "data/table.h"

using namespace amp;

namespace {

template <class F>
void timed(const char* name, F&& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double processor = thread_seconds_of(work);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("\"%s\": {\"wall\": %.4f, \"processor\": %.4f}, ", name, wall.count(), processor);
}

int64_t count_features(Table table, const std::string& target) {
  std::vector<std::string> columns = table.columns();
  std::erase(columns, target);
  read_decimal_marks(table, DecimalMark::automatic, columns);
  FeatureTable features(std::move(table));
  FeatureSchema schema;
  const Guess guess = guess_features(features, target, {}, {});
  schema.categorical = guess.categorical;
  schema.continuous = guess.continuous;
  schema.dates = guess.dates;
  schema.target = target;
  std::vector<int64_t> rows(static_cast<size_t>(features.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const Features fitted = fit_features(features, schema, rows, true);
  const FeatureValues values = feature_values(features, fitted);
  target_numbers(features, target, fitted.target_transform);
  return static_cast<int64_t>(values.codes.size() + values.numbers.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: table_speed FILE [TARGET]\n");
    return 2;
  }
  try {
    std::optional<Table> table;
    std::printf("{");
    timed("rows", [&] { table = Table::read(argv[1]); });
    const int64_t rows = table->rows();
    int64_t features = 0;
    if (argc > 2) timed("features", [&] { features = count_features(std::move(*table), argv[2]); });
    std::printf("\"count\": %lld, \"features_count\": %lld}\n", static_cast<long long>(rows),
                static_cast<long long>(features));
  } catch (const Error& e) {
    std::fprintf(stderr, "table_speed: %s\n", e.what());
    return 1;
  }
  return 0;
}
