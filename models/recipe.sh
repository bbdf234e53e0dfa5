# Common part of the recipes. Each models/NAME/run.sh sources this file:  source "$(dirname "$0")/../recipe.sh"
#   ./run.sh [--full DATA_DIR] [--precisions "fp32 bf16 fp16"] [FLAGS OF THE PROGRAM ...]
# Changes to the root of the repository, and defines variables and functions:
#   $program   the program, built as ./quickstart.sh builds it, or $ONNX_AMP_PROGRAM
#   $here      the recipe's folder: models/NAME
#   $out       the output folder: runs/NAME (or $RECIPE_OUT/NAME)
#   $full      DATA_DIR; empty: use the sample in the recipe's folder
#   $settings  the configuration of the runs: the recipe's config.json
#   train MODEL FLAGS ...   trains once for each precision, in $out/PRECISION
#   minilm                  sets $model to the quickstart's sentence model, which is downloaded once
#   table                   prints a table that compares the runs, and writes $out/report.html
set -euo pipefail
here=models/$(basename "$(cd "$(dirname "$0")" && pwd)")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

full='' precisions='fp32 bf16' flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --full | --precisions)
      [ $# -gt 1 ] || { echo "$0: $1 lacks its value" >&2; exit 2; }
      if [ "$1" = --full ]; then full=$(cd "$2" && pwd) || exit 2; else precisions=$2; fi
      shift 2
      ;;
    --help) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit ;;
    *) flags+=("$1"); shift ;;
  esac
done
for precision in $precisions; do
  case $precision in fp32 | bf16 | fp16) ;; *) echo "$0: --precisions: fp32, bf16 or fp16 is wanted, not '$precision'" >&2; exit 2 ;; esac
done

cd "$root"
out=${RECIPE_OUT:-runs}/$(basename "$here")
settings=$here/config.json
mkdir -p "$out"
program=${ONNX_AMP_PROGRAM:-}
if [ -z "$program" ]; then
  ./cmake/build_program.sh
  program=./build/onnx-amp-finetune
fi

minilm() { model=${RECIPE_MINILM:-$(./cmake/fetch_minilm.sh | tail -1)}; }

train() {
  local model=$1 precision amp
  shift
  for precision in $precisions; do
    amp=--use_$precision
    [ "$precision" != fp32 ] || amp=--use_fp16=false
    printf '\n== %s, %s\n' "$(basename "$here")" "$precision"
    "$program" "$model" --config "$settings" "$amp" "$@" --output_dir "$out/$precision" --overwrite ${flags[@]+"${flags[@]}"}
  done
}

table() {
  local runs=() precision
  for precision in $precisions; do runs+=("$out/$precision"); done
  printf '\n== %s: metrics are those of the exported files, %s\n' "$(basename "$here")" "${runs[*]/%//model.onnx}"
  "$program" report "${runs[@]}" --out "$out/report.html"
}
