// Shorthand of the command-line tests: parse words and environment, and look at a refused command.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/cli/options.h"

inline amp::cli::Options parse(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  std::vector<const char*> argv{"onnx-amp-finetune"}, envp;
  for (const auto& w : words) argv.push_back(w.c_str());
  for (const auto& e : environment) envp.push_back(e.c_str());
  envp.push_back(nullptr);
  return amp::cli::parse_command_line(static_cast<int>(argv.size()), argv.data(), envp.data());
}

// The commands that words come to, without an environment.
inline std::vector<amp::cli::Command> commands_of(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"onnx-amp-finetune"};
  for (const auto& w : words) argv.push_back(w.c_str());
  return amp::cli::parse_commands(static_cast<int>(argv.size()), argv.data(), nullptr);
}

// A train command that lacks nothing, and more words.
inline amp::cli::Options train(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), {"m.onnx", "--train", "t.csv"});
  return parse(std::move(words), std::move(environment));
}

// The error of a refused command as text; "" when it was accepted. Every refusal must exit 2 as E_USAGE.
inline std::string refusal(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  try {
    parse(std::move(words), std::move(environment));
  } catch (const amp::Error& e) {
    if (e.exit() != amp::Exit::usage || e.id() != "E_USAGE") return "another exit: " + std::string(e.what());
    return e.what();
  }
  return "";
}
inline std::string train_refusal(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), {"m.onnx", "--train", "t.csv"});
  return refusal(std::move(words), std::move(environment));
}
inline bool mentions(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& p : parts) {
    if (text.find(p) == std::string::npos) return false;
  }
  return true;
}
