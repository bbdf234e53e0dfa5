#include "base/near_path.h"

#include <catch2/catch_all.hpp>
#include <fstream>

#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a path that does not exist: the nearest name of its folder") {
  const TempDir f;
  std::ofstream(f / "train.csv") << "x";
  CHECK(near_path_hint(f / "trian.csv") == "did you mean '" + (f / "train.csv") + "'?");
  CHECK(near_path_hint(f / "train.cvs") == "did you mean '" + (f / "train.csv") + "'?");
  CHECK(near_path_hint(f / "train.csv").empty());
  CHECK(near_path_hint(f / "labels.jsonl").empty());
  CHECK(near_path_hint(f / "none/train.csv").empty());
  CHECK(near_path_hint("").empty());
}
