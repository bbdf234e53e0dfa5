#!/usr/bin/env bash
# Trains a model to find the words of a tweet that express a given sentiment (Tweet Sentiment Extraction).
#   models/tweet_extraction/run.sh                      3,000 + 600 tweets of this folder
#   models/tweet_extraction/run.sh --full DATA_DIR      DATA_DIR has the competition's train.csv; a tenth is for evaluation
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

minilm
data=(--train "$here/sample/train.csv" --val "$here/sample/dev.csv")
[ -z "$full" ] || data=(--train "$full/train.csv" --val_split 0.1)
train "$model" "${data[@]}" --vocab models/tweet_sentiment/vocab.txt
table
for precision in $precisions; do
  "$program" predict "$out/$precision" --inputs "$here/sample/dev.csv" --out "$out/$precision/answers.csv" --vocab models/tweet_sentiment/vocab.txt
done
