#!/usr/bin/env bash
# Fine-tunes a small sentence model to classify sentences and sentence pairs of GLUE.
#   models/glue/run.sh                    similarity of image captions (STS-B), in this folder
#   models/glue/run.sh --full DATA_DIR    SST-2, CoLA, MRPC, RTE, STS-B: DATA_DIR has the folders sst2, cola, mrpc, rte, stsb
#                                         (TASKS="sst2 cola" selects some)
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

minilm
one() { # Arguments: TASK FLAGS ...; the run's folder is $out/TASK
  local task=$1 all=$out
  shift
  out=$all/$task
  mkdir -p "$out"
  train "$model" --vocab models/tweet_sentiment/vocab.txt "$@"
  table
  out=$all
}
if [ -z "$full" ]; then
  one stsb --train "$here/sample/stsb_train.tsv" --val "$here/sample/stsb_dev.tsv" --task regression \
    --text_columns sentence1,sentence2 --label_column score --metric_for_best_model spearman
  exit
fi
for task in ${TASKS:-sst2 cola mrpc rte stsb}; do
  case $task in
    sst2) one sst2 --train "$full/sst2/train.tsv" --val "$full/sst2/dev.tsv" --text_columns sentence --val_text_columns content --label_column label ;;
    cola) one cola --train "$full/cola/train.tsv" --val "$full/cola/dev.tsv" --text_columns 3 --label_column 1 --metric_for_best_model mcc ;;
    mrpc) one mrpc --train "$full/mrpc/msr_paraphrase_train.txt" --val "$full/mrpc/msr_paraphrase_test.txt" --data_format tsv \
      --text_columns '#1 String,#2 String' --label_column Quality ;;
    rte) one rte --train "$full/rte/train.tsv" --val "$full/rte/dev.tsv" --text_columns sentence1,sentence2 --label_column label ;;
    stsb) one stsb --train "$full/stsb/train.tsv" --val "$full/stsb/dev.tsv" --task regression \
      --text_columns sentence1,sentence2 --label_column score --metric_for_best_model spearman ;;
    *) echo "$0: TASKS: sst2, cola, mrpc, rte or stsb is wanted, not '$task'" >&2; exit 2 ;;
  esac
done
