// Makes shell completions and the manual page from the tables of verbs and flags, so that they list what the parser
// accepts. The installation gets these texts from the program, with --print_completions bash|zsh|fish and --print_man.
#pragma once

#include <string>
#include <string_view>

namespace amp::cli {

// Returns the completion script of a shell: bash, zsh or fish. Throws E_USAGE (Exit::usage) for another name.
std::string completion_text(std::string_view shell);

// Returns the manual page onnx-amp-finetune(1) in troff: the help texts of all verbs.
std::string man_text();

}  // namespace amp::cli
