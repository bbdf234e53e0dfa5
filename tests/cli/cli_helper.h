// Helpers of the command-line tests: parse words and environment, and inspect the error of a refused command.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/cli/flag_text.h"
#include "tools/cli/options.h"

inline amp::cli::Options parse(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  std::vector<const char*> argv{"onnx-amp-finetune"}, envp;
  for (const auto& w : words) argv.push_back(w.c_str());
  for (const auto& e : environment) envp.push_back(e.c_str());
  envp.push_back(nullptr);
  return amp::cli::parse_command_line(static_cast<int>(argv.size()), argv.data(), envp.data());
}

// Parses words without an environment.
inline std::vector<amp::cli::Command> commands_of(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"onnx-amp-finetune"};
  for (const auto& w : words) argv.push_back(w.c_str());
  return amp::cli::parse_commands(static_cast<int>(argv.size()), argv.data(), nullptr);
}

// Parses a complete train command with additional words.
inline amp::cli::Options train(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), {"m.onnx", "--train", "t.csv"});
  return parse(std::move(words), std::move(environment));
}

// Returns the error of a refused command as text; "" if it was accepted. Requires that the error is E_USAGE (exit 2).
inline std::string refusal(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  try {
    parse(std::move(words), std::move(environment));
  } catch (const amp::Error& e) {
    if (e.exit() != amp::Exit::usage || e.id() != "E_USAGE") return "another exit: " + std::string(e.what());
    return amp::cli::with_flags(e).what();
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
