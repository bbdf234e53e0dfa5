// Tests that payloads of external data are shared while they are in memory, and only if the file cannot have changed
// since they were read.
#include "importer/read/shared_payloads.h"

#include <catch2/catch_all.hpp>
#include <ctime>
#include <optional>

using namespace amp;

namespace {

// Returns a file whose last change was this many seconds ago.
struct stat file_of_age(int64_t seconds) {
  struct stat s = {};
  s.st_dev = 1, s.st_ino = 2, s.st_size = 100;
  s.st_mtim.tv_sec = s.st_ctim.tv_sec = ::time(nullptr) - seconds;
  return s;
}

HostTensor four() { return HostTensor::of<uint8_t>({4}, {1, 2, 3, 4}); }

}  // namespace

TEST_CASE("the payload of a file that is read again is shared while it is in memory", "[payloads]") {
  const PayloadPlace place(file_of_age(60), 8, 4, DType::u8);
  CHECK(!shared_payload(place, {4}));
  std::optional<HostTensor> first = share_payload(place, four());
  const HostTensor second = shared_payload(place, {2, 2});
  REQUIRE(second);
  CHECK(second.data() == first->data());
  CHECK(second.dims() == Dims{2, 2});
  first.reset();
  CHECK(second.to_ints() == std::vector<int64_t>{1, 2, 3, 4});  // `second` keeps the bytes in memory
  CHECK(shared_payload(place, {4}));
}

TEST_CASE("a payload is not shared after it was released, nor with another place or state of the file", "[payloads]") {
  const struct stat file = file_of_age(60);
  const PayloadPlace place(file, 16, 4, DType::u8);
  std::optional<HostTensor> held = share_payload(place, four());
  REQUIRE(shared_payload(place, {4}));
  CHECK(!shared_payload(PayloadPlace(file, 17, 4, DType::u8), {4}));
  CHECK(!shared_payload(PayloadPlace(file, 16, 4, DType::i8), {4}));
  for (const int change : {0, 1, 2, 3, 4}) {
    struct stat other = file;
    if (change == 0) ++other.st_ino;
    if (change == 1) ++other.st_dev;
    if (change == 2) ++other.st_size;
    if (change == 3) ++other.st_mtim.tv_nsec;
    if (change == 4) ++other.st_ctim.tv_nsec;
    INFO(change);
    CHECK(!shared_payload(PayloadPlace(other, 16, 4, DType::u8), {4}));
  }
  held.reset();
  CHECK(!shared_payload(place, {4}));
}

TEST_CASE("the payload of a file that has just changed is not shared", "[payloads]") {
  const PayloadPlace place(file_of_age(0), 0, 4, DType::u8);
  const HostTensor held = share_payload(place, four());
  CHECK(held.to_ints() == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(!shared_payload(place, {4}));
}

// Programs such as cp -p and tar restore the time of the last modification, but not that of the last change.
TEST_CASE("a file is settled if neither its contents nor its entry changed lately", "[payloads]") {
  for (const auto& [modified, changed] : {std::pair(60, 0), std::pair(0, 60), std::pair(0, 0), std::pair(60, 60)}) {
    INFO(modified << ' ' << changed);
    struct stat s = file_of_age(modified);
    s.st_ctim.tv_sec = ::time(nullptr) - changed;
    const PayloadPlace place(s, 32, 4, DType::u8);
    const HostTensor held = share_payload(place, four());
    CHECK(static_cast<bool>(shared_payload(place, {4})) == (modified == 60 && changed == 60));
  }
}
