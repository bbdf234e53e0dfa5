#!/usr/bin/env bash
# Names of people, places, products ... in social media (WNUT-17).
#   models/ner/run.sh                    1,500 + 400 texts of this folder
#   models/ner/run.sh --full DATA_DIR    DATA_DIR has wnut17train.conll and emerging.dev.conll
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

minilm
data=(--train "$here/sample/train.conll" --val "$here/sample/dev.conll")
[ -z "$full" ] || data=(--train "$full/wnut17train.conll" --val "$full/emerging.dev.conll")
train "$model" "${data[@]}" --vocab models/tweet_sentiment/vocab.txt
table
