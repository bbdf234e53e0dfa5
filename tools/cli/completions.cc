// Scripts for bash, zsh and fish, and the manual page. Each script holds the verbs, the flags of each verb and the
// values of each flag with fixed values; the shell's own functions complete file names.
#include "tools/cli/completions.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "run/version.h"
#include "tools/cli/flag_text.h"
#include "tools/cli/flags.h"
#include "tools/cli/help.h"

namespace amp::cli {
namespace {

constexpr std::string_view kProgram = "onnx-amp-finetune";

std::vector<std::string> verb_names() {
  std::vector<std::string> out;
  for (const VerbInfo& v : verbs()) out.emplace_back(v.name);
  return out;
}

std::vector<std::string> flags_of(Verb verb) {
  std::vector<std::string> out;
  for (const Flag& f : flags()) {
    if (has(f.verbs, verb)) out.push_back(cat("--", f.name));
  }
  return out;
}

std::vector<std::string> values_of(const Flag& f) { return {f.choices.begin(), f.choices.end()}; }

bool takes_value(const Flag& f) { return f.type() != SettingType::boolean; }

// Returns the first sentence of the text.
std::string brief(std::string_view help) {
  std::string text = with_flags(help);
  if (const size_t end = text.find(". "); end != std::string::npos) text.resize(end);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

// Escapes text for single quotes of zsh. Backslashes protect characters that _arguments and _describe interpret.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) out += '\\';
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out;
}

// Escapes text for single quotes of fish.
std::string fish_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string bash_text() {
  std::string out = cat("# bash completion for ", kProgram, ", made by --print_completions bash\n",
                        "_onnx_amp_finetune() {\n"
                        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=train\n"
                        "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                        "  if [ \"$word\" = = ]; then word=; fi\n"
                        "  case ${COMP_WORDS[1]} in\n    ",
                        join(verb_names(), "|"),
                        ") verb=${COMP_WORDS[1]} ;;\n  esac\n"
                        "  case $before in\n");
  for (const Flag& f : flags()) {
    if (!takes_value(f)) continue;
    out += cat("    --", f.name, ") ");
    out += f.choices.empty() ? "COMPREPLY=($(compgen -f -- \"$word\"))"
                             : cat("COMPREPLY=($(compgen -W '", join(values_of(f), " "), "' -- \"$word\"))");
    out += "; return ;;\n";
  }
  out += "  esac\n  local flags\n  case $verb in\n";
  for (const VerbInfo& v : verbs()) out += cat("    ", v.name, ") flags='", join(flags_of(v.verb), " "), "' ;;\n");
  out +=
      cat("  esac\n"
          "  if [ \"${COMP_WORDS[1]}\" = help ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
          "    COMPREPLY=($(compgen -W '",
          join(verb_names(), " "),
          "' -- \"$word\"))\n"
          "    return\n"
          "  fi\n"
          "  case $word in\n"
          "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
          "    *) COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "       if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY+=($(compgen -W '",
          join(verb_names(), " "),
          "' -- \"$word\")); fi ;;\n"
          "  esac\n"
          "}\n"
          "complete -o filenames -F _onnx_amp_finetune ",
          kProgram, "\n");
  return out;
}

std::string zsh_text() {
  std::string out = cat("#compdef ", kProgram, "\n# made by --print_completions zsh\n",
                        "local verb=train\n"
                        "local -a verbs flags\nverbs=(\n");
  for (const VerbInfo& v : verbs()) out += cat("  '", v.name, ":", zsh_escaped(brief(v.what)), "'\n");
  out += cat(")\ncase ${words[2]} in\n  ", join(verb_names(), "|"), ") verb=${words[2]} ;;\nesac\ncase $verb in\n");
  for (const VerbInfo& v : verbs()) {
    out += cat("  ", v.name, ") flags=(\n");
    for (const Flag& f : flags()) {
      if (!has(f.verbs, v.verb)) continue;
      std::string spec = cat("    '*--", f.name, takes_value(f) ? "=" : "", "[", zsh_escaped(brief(f.help)), "]");
      if (takes_value(f))
        spec += f.choices.empty() ? cat(":", f.name, ":_files") : cat(":", f.name, ":(", join(values_of(f), " "), ")");
      out += spec + "'\n";
    }
    out += "  ) ;;\n";
  }
  out +=
      "esac\nif (( CURRENT == 2 )) || [[ $CURRENT == 3 && $verb == help ]]; then _describe verb verbs; fi\n"
      "_arguments $flags '*:file:_files'\n";
  return out;
}

std::string fish_text() {
  std::string out = cat("# fish completion for ", kProgram, ", made by --print_completions fish\n");
  for (const VerbInfo& v : verbs())
    out += cat("complete -c ", kProgram, " -n '__fish_use_subcommand; or __fish_seen_subcommand_from help' -a ", v.name,
               " -d '", fish_escaped(brief(v.what)), "'\n");
  std::vector<std::string> others;  // the verbs that a command line may not omit: all but train
  for (const VerbInfo& v : verbs()) {
    if (v.verb != Verb::train) others.emplace_back(v.name);
  }
  for (const Flag& f : flags()) {
    std::vector<std::string> users;
    for (const VerbInfo& v : verbs()) {
      if (has(f.verbs, v.verb) && v.verb != Verb::train) users.emplace_back(v.name);
    }
    std::vector<std::string> conditions;
    if (!users.empty()) conditions.push_back("__fish_seen_subcommand_from " + join(users, " "));
    if (has(f.verbs, Verb::train)) conditions.push_back("not __fish_seen_subcommand_from " + join(others, " "));
    out += cat("complete -c ", kProgram, " -n '", join(conditions, "; or "), "' -l ", f.name);
    if (takes_value(f)) out += f.choices.empty() ? " -r" : cat(" -x -a '", join(values_of(f), " "), "'");
    out += cat(" -d '", fish_escaped(brief(f.help)), "'\n");
  }
  return out;
}

// Escapes text for troff, outside of filled paragraphs.
std::string troff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string completion_text(std::string_view shell) {
  if (shell == "bash") return bash_text();
  if (shell == "zsh") return zsh_text();
  if (shell == "fish") return fish_text();
  fail(Exit::usage, "E_USAGE", cat("there are no completions for the shell '", printable(shell), "'"),
       "--print_completions bash, zsh or fish");
}

std::string man_text() {
  const std::string line = program_version(), version = line.substr(0, line.find('\n'));
  std::string out = cat(".TH ONNX\\-AMP\\-FINETUNE 1 \"\" \"", version, "\"\n.SH NAME\n", troff(kProgram),
                        " \\- fine\\-tune ONNX models in mixed precision\n.SH SYNOPSIS\n.nf\n");
  for (const VerbInfo& v : verbs())
    out +=
        troff(cat(kProgram, v.verb == Verb::train ? "" : cat(" ", v.name), v.usage.empty() ? "" : " ", v.usage, "\n"));
  out += ".fi\n.SH DESCRIPTION\n.nf\n" + troff(help_text(std::nullopt, true)) + ".fi\n";
  for (const VerbInfo& v : verbs()) {
    if (v.verb == Verb::train || v.verb == Verb::help || v.verb == Verb::version) continue;
    std::string title(v.name);
    for (char& c : title) c = static_cast<char>(c - 'a' + 'A');
    out += cat(".SH ", title, "\n.nf\n", troff(help_text(v.verb, true)), ".fi\n");
  }
  return out;
}

}  // namespace amp::cli
