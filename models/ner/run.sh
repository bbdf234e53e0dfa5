#!/usr/bin/env bash
# Trains a model to find names of people, places, products and so on in social media (WNUT-17) and in Wikipedia (PAN-X).
#   models/ner/run.sh                    WNUT-17: 1,500 + 400 texts of this folder
#   models/ner/run.sh --full DATA_DIR    all of WNUT-17 and PAN-X: DATA_DIR has the folders wnut17, with wnut17train.conll and
#                                        emerging.dev.conll, and panx, with train-LANG.tsv and dev-LANG.tsv. TASKS=panx
#                                        selects one; LANGS="en de fr": trains on the first, evaluates on each
# MODEL=bert.onnx VOCAB=vocab.txt models/ner/run.sh uses another model. Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

model=${MODEL:-} vocab=${VOCAB:-models/tweet_sentiment/vocab.txt} langs=${LANGS:-en de fr}
[ -n "$model" ] || minilm
one() { # Arguments: TASK FLAGS ...; the runs are in $out/TASK
  local task=$1 all=$out
  shift
  out=$all/$task
  mkdir -p "$out"
  train "$model" --vocab "$vocab" "$@"
  table
  out=$all
}
by_language() { # Argument: DATA; prints entity_f1 of the exported files
  local lang precision
  printf '\n== panx, entity_f1:'
  printf ' %9s' $precisions
  for lang in $langs; do
    printf '\n%-19s' "$lang"
    for precision in $precisions; do
      "$program" eval "$out/panx/$precision" --val "$1/dev-$lang.tsv" --vocab "$vocab" --batch_size 64 --out "$out/panx/$precision/$lang.json" --quiet >/dev/null
      printf ' %9.4f' "$(sed -n 's/^ *"entity_f1": \([^,]*\),*/\1/p' "$out/panx/$precision/$lang.json")"
    done
  done
  printf '\n'
}
if [ -z "$full" ]; then
  train "$model" --train "$here/sample/train.conll" --val "$here/sample/dev.conll" --vocab "$vocab"
  table
  exit
fi
for task in ${TASKS:-wnut17 panx}; do
  case $task in
    wnut17) one wnut17 --train "$full/wnut17/wnut17train.conll" --val "$full/wnut17/emerging.dev.conll" ;;
    panx)
      one panx --train "$full/panx/train-${langs%% *}.tsv" --val "$full/panx/dev-${langs%% *}.tsv"
      by_language "$full/panx"
      ;;
    *) echo "$0: TASKS: wnut17 or panx is wanted, not '$task'" >&2; exit 2 ;;
  esac
done
