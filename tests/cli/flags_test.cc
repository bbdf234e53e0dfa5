// The flag table: it is complete and unambiguous, and its defaults are valid.
#include "tools/cli/flags.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

using namespace amp;
using namespace amp::cli;

TEST_CASE("every flag has a help line, a group, a verb and a metavar", "[cli]") {
  REQUIRE(flags().size() > 80);
  for (const Flag& f : flags()) {
    INFO(f.name);
    CHECK(f.help.size() > 8);
    CHECK(f.help.ends_with('.'));
    CHECK(f.group < SettingGroup::count);
    CHECK(!title(f.group).empty());
    CHECK(f.verbs != 0);
    CHECK((f.required & ~f.verbs) == 0);
    CHECK(f.name == snake_case(f.name));
    CHECK((f.metavar.empty()) == (f.type() == SettingType::boolean || f.type() == SettingType::choice));
    CHECK((f.type() == SettingType::choice) == !f.choices.empty());
    CHECK((f.normalize == nullptr) == f.expected.empty());
  }
}

TEST_CASE("groups are contiguous and none is empty", "[cli]") {
  std::set<SettingGroup> seen;
  SettingGroup last = SettingGroup::count;
  for (const Flag& f : flags()) {
    INFO(f.name);
    if (f.group != last) CHECK(seen.insert(f.group).second);
    last = f.group;
  }
  CHECK(seen.size() == static_cast<size_t>(SettingGroup::count));
}

TEST_CASE("names and other spellings do not collide, nor with --no_ forms", "[cli]") {
  std::map<std::string, std::string> owner;
  for (const Flag& f : flags()) {
    std::vector<std::string> spellings{std::string(f.name)};
    for (const OtherName& a : f.other_names) {
      spellings.emplace_back(a.name);
      CHECK(a.name == snake_case(a.name));
    }
    if (f.type() == SettingType::boolean) {
      for (size_t i = 0, n = spellings.size(); i < n; ++i) spellings.push_back("no_" + spellings[i]);
    }
    for (const std::string& s : spellings) {
      INFO(s << " of " << f.name << " and of " << owner[s]);
      CHECK(owner[s].empty());
      owner[s] = f.name;
    }
  }
  for (const char* reserved : {"help", "version", "all", "max_isa", "deps", "zoo", "skip_apt"})
    CHECK(!owner.contains(reserved));
}

TEST_CASE("every default, synonym and switch value is a legal value of its flag", "[cli]") {
  for (const Flag& f : flags()) {
    INFO(f.name);
    for (const VerbInfo& v : verbs()) CHECK_NOTHROW(check_value(f, f.default_for(v.verb)));
    for (const auto& [theirs, ours] : f.synonyms) {
      CHECK(value_text(parse_value(f, std::vector{std::string(theirs)})) == ours);
    }
    for (const OtherName& a : f.other_names) {
      if (!a.is_switch()) continue;
      CHECK(value_text(parse_value(f, std::vector{std::string(a.when_true)})) == a.when_true);
      CHECK(value_text(parse_value(f, std::vector{std::string(a.when_false)})) == a.when_false);
    }
  }
}

TEST_CASE("verbs: names are unique", "[cli]") {
  std::set<std::string_view> names;
  for (const VerbInfo& v : verbs()) CHECK(names.insert(v.name).second);
  for (const char* name : {"train", "eval", "predict", "check", "plan", "grad", "export", "tokenize"}) {
    CHECK(find_verb(name) != nullptr);
  }
  CHECK(find_verb("benchmark") == nullptr);
  CHECK(find_verb("model.onnx") == nullptr);
}

TEST_CASE("defaults that the documentation promises", "[cli]") {
  const std::map<std::string_view, std::string_view> promised{{"max_seq_len", "128"},
                                                              {"pad_to_multiple", "8"},
                                                              {"group_by_length", "true"},
                                                              {"shuffle", "true"},
                                                              {"dropout", "0.1"},
                                                              {"tie_weights", "auto"},
                                                              {"batchnorm", "freeze"},
                                                              {"amp_level", "O1"},
                                                              {"loss_scale", "dynamic"},
                                                              {"init_loss_scale", "65536"},
                                                              {"scale_growth_factor", "2"},
                                                              {"scale_backoff_factor", "0.5"},
                                                              {"scale_growth_interval", "2000"},
                                                              {"min_loss_scale", "1"},
                                                              {"max_loss_scale", "16777216"},
                                                              {"scale_hysteresis", "1"},
                                                              {"max_consecutive_skips", "50"},
                                                              {"optimizer", "adamw"},
                                                              {"lr", "5e-05"},
                                                              {"adam_beta1", "0.9"},
                                                              {"adam_beta2", "0.999"},
                                                              {"adam_epsilon", "1e-08"},
                                                              {"weight_decay", "0"},
                                                              {"lr_scheduler", "linear"},
                                                              {"max_grad_norm", "1"},
                                                              {"gradient_accumulation_steps", "1"},
                                                              {"batch_size", "8"},
                                                              {"epochs", "3"},
                                                              {"max_steps", "-1"},
                                                              {"ema_decay", "0"},
                                                              {"seed", "42"},
                                                              {"threads", "0"},
                                                              {"save_total_limit", "2"},
                                                              {"resume", "none"},
                                                              {"output_dir", "run"},
                                                              {"export_precision", "fp32"},
                                                              {"export_weights", "last"},
                                                              {"device", "auto"}};
  for (const auto& [name, value] : promised) {
    INFO(name);
    CHECK(value_text(flag_named(name).default_for(Verb::train)) == value);
  }
}
