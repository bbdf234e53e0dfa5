#!/usr/bin/env bash
# Installs this build into an empty prefix, moves the prefix, and builds and runs a C++ project that finds the library
# there by find_package(onnx_amp). Its models must equal those of the command line. Checks that every file is where an
# installation has it.
# Then it builds and runs the example of docs/library.md, which finds the library by pkg-config.
#   install.sh CMAKE BUILD FOLDER ZOO
set -euo pipefail
cmake=$1 build=$2 folder=$3 zoo=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$folder"
mkdir -p "$folder/run"
"$cmake" --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/prefix"
prefix=$folder/prefix
for file in bin/onnx-amp-finetune lib/libonnx_amp.so lib/libonnx_amp.so.1 include/onnx_amp/onnx_amp.h \
  include/onnx_amp/onnx_amp.hpp lib/cmake/onnx_amp/onnx_ampConfig.cmake lib/pkgconfig/onnx_amp.pc \
  share/man/man1/onnx-amp-finetune.1 share/bash-completion/completions/onnx-amp-finetune \
  share/zsh/site-functions/_onnx-amp-finetune share/fish/vendor_completions.d/onnx-amp-finetune.fish; do
  [ -s "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
find "$prefix" -name LICENSE | grep -q . || { echo "no license is installed"; exit 1; }

"$prefix/bin/onnx-amp-finetune" version
if grep -rl "$build" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"; then
  echo "the package names the build folder"
  exit 1
fi

# The completions contain every verb and the values of a flag.
complete() { :; }
. "$prefix/share/bash-completion/completions/onnx-amp-finetune"
completes() { # WANTED WORD...
  local wanted=$1
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _onnx_amp_finetune || true  # compgen fails if nothing matches
  printf '%s\n' "${COMPREPLY[@]}" | grep -qx -- "$wanted" || { echo "no completion $wanted of: $*"; exit 1; }
}
completes predict onnx-amp-finetune pre
completes --lr onnx-amp-finetune m.onnx --l
completes --inputs onnx-amp-finetune predict m.onnx --in
completes adamw onnx-amp-finetune m.onnx --optimizer ad

"$cmake" -S "$here/consumer" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >"$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
"$cmake" --build "$folder/build" >>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
trained() { # lenet|minilm MODEL SETTINGS: the C++ program and the installed command write the same model
  rm -rf "$folder/run/$1"
  mkdir -p "$folder/run/$1"
  "$folder/build/consumer" "$1" "$zoo/$2/model.onnx" "$folder/run/$1" "$3"
  "$prefix/bin/onnx-amp-finetune" --config "$folder/run/$1/config.json" --quiet
  cmp "$folder/run/$1/trained.onnx" "$folder/run/$1/cli/model.onnx"
}
trained lenet lenet_relu_dyn18 ""
trained minilm minilm_embed_ts14 ', "use_fp16": true, "head": "classification", "num_labels": 2'

awk '/^```c$/ {on = 1; next} /^```/ {on = 0} on' "$here/../../docs/library.md" >"$folder/example.c"
flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs onnx_amp)
# shellcheck disable=SC2086
gcc -std=c99 -Wall -pedantic -Werror "$folder/example.c" $flags -o "$folder/example"
"$prefix/bin/onnx-amp-finetune" create lenet --out "$folder/run/lenet.onnx" >/dev/null
said=$(cd "$folder/run" && LD_LIBRARY_PATH=$prefix/lib ../example)
case $said in
  "loss "*" after 100 steps") ;;
  *) echo "the example of docs/library.md printed: $said"; exit 1 ;;
esac
