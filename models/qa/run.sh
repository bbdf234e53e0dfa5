#!/usr/bin/env bash
# Trains a model to answer questions by a span of a text. The data are JSON files in SQuAD's format.
#   models/qa/run.sh                    16 + 6 articles of XQuAD, in this folder
#   models/qa/run.sh --full DATA_DIR    TyDi QA: DATA_DIR has tydiqa.goldp.en.train.json and tydiqa.goldp.en.dev.json
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

minilm
data=(--train "$here/sample/train.json" --val "$here/sample/dev.json")
[ -z "$full" ] || data=(--train "$full/tydiqa.goldp.en.train.json" --val "$full/tydiqa.goldp.en.dev.json")
train "$model" "${data[@]}" --vocab models/tweet_sentiment/vocab.txt
table
