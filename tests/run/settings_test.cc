// The table of settings: every member of RunSpec has one row, and values of every source are validated by that row.
#include "run/settings/settings.h"

#include <catch2/catch_all.hpp>
#include <map>
#include <set>
#include <utility>

#include "run/prepare/input_files.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using amp::test::error_of;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Anything {
  template <class T>
  operator T() const;
};
template <class Part, size_t... I>
constexpr bool has_members(std::index_sequence<I...>) {
  return requires { Part{(static_cast<void>(I), Anything{})...}; };
}
// Returns the number of members of an aggregate: it accepts as many initializers as it has members.
template <class Part, size_t N = 1>
constexpr size_t members() {
  if constexpr (has_members<Part>(std::make_index_sequence<N + 1>{})) {
    return members<Part, N + 1>();
  } else {
    return N;
  }
}
template <class... Parts>
constexpr size_t members_of() {
  return (members<Parts>() + ...);
}

RunSpec batch_of(const std::string& model) {
  RunSpec spec;
  spec.model.model = test::test_data("zoo/" + model + "/model.onnx");
  spec.data.train = test::test_data("zoo/" + model + "/batch.safetensors");
  spec.objective.loss = {"cross_entropy"};
  spec.device.device = "cpu";
  return spec;
}

}  // namespace

TEST_CASE("every member of a RunSpec's parts is a setting", "[settings]") {
  std::set<const void*> places;
  RunSpec spec;
  for (const Setting& s : settings()) {
    INFO(s.name);
    CHECK(std::visit([&](const auto* place) { return places.insert(place).second; }, s.member(spec)));
  }
  // Of these members, 4 are parts, and DataSpec::skipped and ImageSpec::unreadable are not settings.
  constexpr size_t data = members_of<DataSpec, TextSpec, LanguageSpec, ImageSpec, TableSpec>() - 6;
  CHECK(settings().size() == data + members_of<ModelSpec, ObjectiveSpec, PrecisionSpec, OptimizationSpec, ScheduleSpec,
                                               EvaluationSpec, OutputSpec, DistributionSpec, DeviceSpec>());
  CHECK(members<RunSpec>() == 11);  // ten parts, and `sources`
}

TEST_CASE("a setting's row says what people need", "[settings]") {
  for (const Setting& s : settings()) {
    INFO(s.name);
    CHECK(s.jobs != 0);
    CHECK((s.required & ~s.jobs) == 0);
    CHECK(s.help.ends_with('.'));
    CHECK(find_setting(s.name) == &s);
    CHECK(s.metavar.empty() == (s.type() == SettingType::boolean || s.type() == SettingType::choice));
    if (s.low_open || s.high_open || s.infinity_allowed)
      CHECK((s.type() == SettingType::integer || s.type() == SettingType::number));
    CHECK_NOTHROW(check_value(s, s.initial));
    for (const auto& [job, value] : s.other_defaults) {
      CHECK(has(s.jobs, job));
      CHECK(value.index() == s.initial.index());
      CHECK_NOTHROW(check_value(s, value));
    }
  }
}

TEST_CASE("a checkpoint from before a setting came up is of a run with its default", "[settings]") {
  RunSpec spec = batch_of("lenet_relu_dyn18");
  spec.optimization.lr = 0.5;
  const std::map<std::string, std::string> now = resume_record(spec);
  std::map<std::string, std::string> saved = now;
  REQUIRE(saved.erase("grad_reduce_dtype") == 1);
  CHECK_THROWS_WITH(require_same(saved, now), ContainsSubstring("grad_reduce_dtype was absent, is fp32"));
  add_new_settings(saved);
  CHECK_NOTHROW(require_same(saved, now));
  saved.erase("lr");
  add_new_settings(saved);
  CHECK_THROWS_WITH(require_same(saved, now), ContainsSubstring("lr was 5e-05, is 0.5"));
}

TEST_CASE("a library's settings are held to the same ranges, in the same words", "[settings]") {
  const auto refused = [](void (*change)(RunSpec&)) {
    RunSpec spec = batch_of("lenet_relu_dyn18");
    change(spec);
    const Error e = error_of([&] { prepare(spec, {}, Mode::estimate); });
    CHECK(e.exit() == Exit::usage);
    return e.fact();
  };
  CHECK(refused([](RunSpec& s) { s.schedule.epochs = -1; }) == "`epochs` -1: out of range; allowed: at least 0");
  CHECK(refused([](RunSpec& s) { s.optimization.lr = std::numeric_limits<double>::infinity(); }) ==
        "`lr` inf: out of range; allowed: at least 0");
  CHECK(refused([](RunSpec& s) { s.model.dropout = 1; }) ==
        "`dropout` 1: out of range; allowed: at least 0 and below 1");
  CHECK_THAT(refused([](RunSpec& s) { s.optimization.optimizer = "adamx"; }), ContainsSubstring("no such value"));
  CHECK_THAT(refused([](RunSpec& s) { s.precision.inject_overflow = "8-6"; }), ContainsSubstring("3,6-8"));
  CHECK_THAT(refused([](RunSpec& s) { s.evaluation.require = {"acuracy>1"}; }), ContainsSubstring("accuracy"));
  CHECK_THAT(refused([](RunSpec& s) { s.output.output_dir = ""; }), ContainsSubstring("empty"));
  RunSpec other = batch_of("lenet_relu_dyn18");
  other.precision.dtype = "fp8";  // training does not read `dtype`, evaluation does
  CHECK_NOTHROW(prepare(other, {}, Mode::estimate));
  CHECK(error_of([&] { evaluate_model(other); }).id() == "E_USAGE");
}
