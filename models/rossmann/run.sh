#!/usr/bin/env bash
# Trains a model to predict sales of stores from CSV files in the format of the competition Rossmann Store Sales. The
# inputs are numbers and embeddings of categories; the target is log(1 + sales).
#   models/rossmann/run.sh                   40 invented stores, in this folder (make_sample.py)
#   models/rossmann/run.sh --full DATA_DIR   the competition's 1,115: DATA_DIR has train.csv.gz and store.csv
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

data=${full:-$here/sample}
# Selects the days on which a store was open, before the last six weeks (training) or in them (evaluation). Columns:
# Store, DayOfWeek, Date, Sales, ...
split_days() { gzip -cd "$data/train.csv.gz" | awk -F, -v late="$1" 'NR == 1 || ($4 > 0 && ($3 >= "2015-06-20") == late)'; }
split_days 0 >"$out/train.csv"
split_days 1 >"$out/val.csv"

"$program" create tabular --model_config "$here/model.json" --out "$out/rossmann.onnx"
train "$out/rossmann.onnx" --train "$out/train.csv" --val "$out/val.csv" --join "$data/store.csv:Store"
table
for precision in $precisions; do
  "$program" export "$out/$precision" --out "$out/$precision/raw_rows.onnx" --export_raw_rows
done
