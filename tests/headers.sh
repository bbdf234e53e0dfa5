#!/usr/bin/env bash
# Every header compiles alone, without a warning of -Wconversion, which its users may have on, or of -Wshadow=local:
# headers.sh COMPILER FLAG... -- HEADER...
set -euo pipefail
flags=()
while [ "$1" != -- ]; do flags+=("$1"); shift; done
shift
[ $# -gt 0 ] || { echo "no headers"; exit 1; }
one() {
  local header=$1 out
  shift
  out=$("$@" -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow=local -Werror -x c++ - <<<"#include \"$header\"" 2>&1) && return
  printf '%s does not compile alone:\n%s\n' "$header" "$out"
  return 1
}
export -f one
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I HEADER bash -c 'one "$@"' one HEADER "${flags[@]}"
