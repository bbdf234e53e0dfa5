// Event files against TensorBoard's own writer (tests/data/trainer/make_events.py), also for resumed runs.
#include "run/report/event_file.h"

#include <catch2/catch_all.hpp>
#include <filesystem>

#include "base/file.h"
#include "base/fs.h"
#include "run/folder/run_files.h"
#include "tests/support.h"

using namespace amp;
using amp::test::TempDir;

namespace {

std::string bytes_of(const std::string& path) { return std::string(read_file(path).text()); }

std::string file_of(const TempDir& f, int64_t first) {
  std::string digits = std::to_string(first);
  digits.insert(0, 12 - digits.size(), '0');
  return f / (kEventFilePrefix + digits);
}

void write_steps(const std::string& folder, int64_t first, int64_t last) {
  EventFile file(folder, first, 1000);
  for (int64_t s = first; s <= last; ++s) {
    const Scalar scalars[] = {{"train/loss", 1.0 / static_cast<double>(s)}, {"train/learning_rate", 1e-4}};
    file.write(s, 1000.5 + static_cast<double>(s), scalars);
  }
}

}  // namespace

TEST_CASE("an event file has the bytes that TensorBoard's own writer gives it") {
  const TempDir f;
  write_steps(f.path.string(), 1, 3);
  CHECK(bytes_of(file_of(f, 1)) == bytes_of(test::test_data("trainer/events/events.out.tfevents.000000000001")));
}

TEST_CASE("a resumed run's events follow those that hold, each step once") {
  const TempDir f;
  write_steps(f.path.string(), 1, 8);
  const std::string whole = bytes_of(file_of(f, 1));
  write_steps(f.path.string(), 6, 9);  // as a run that resumes from the checkpoint of step 5
  CHECK(bytes_of(file_of(f, 1)) == kept_records(whole, 6));
  CHECK(bytes_of(file_of(f, 1)).size() < whole.size());
  write_steps(f.path.string(), 3, 4);  // as a second resumed run, from an earlier checkpoint
  CHECK_FALSE(path_exists(file_of(f, 6)));
  const TempDir straight;
  write_steps(straight.path.string(), 1, 2);
  CHECK(bytes_of(file_of(f, 1)) == bytes_of(file_of(straight, 1)));
}

TEST_CASE("what is cut off or damaged in an event file ends it") {
  const Scalar one[] = {{"train/loss", 1}};
  const std::string a = tf_record(scalar_event(1, 0, one)), b = tf_record(scalar_event(2, 0, one));
  CHECK(kept_records(a + b, 10) == a + b);
  CHECK(kept_records(a + b.substr(0, b.size() - 1), 10) == a);
  std::string damaged = b;
  damaged[damaged.size() / 2] ^= 1;
  CHECK(kept_records(a + damaged + b, 10) == a);
  std::string long_one = b;
  long_one[7] = '\x7f';  // the length of a record, larger than any file
  CHECK(kept_records(a + long_one, 10) == a);
}
