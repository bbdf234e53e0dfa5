#!/usr/bin/env bash
# Trains sentence embeddings. The cosine of two embeddings is the similarity of the sentences (STS-B).
#   models/embeddings/run.sh                    image captions, models/glue/sample
#   models/embeddings/run.sh --full DATA_DIR    DATA_DIR has STS-B's train.tsv and dev.tsv
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

minilm
data=${full:-models/glue/sample}
# Scores from 0 to 5 are divided by 5, so that they are cosines from 0 to 1.
for part in train dev; do
  file=$data/$part.tsv
  [ -f "$file" ] || file=$data/stsb_$part.tsv
  awk -F'\t' -v OFS='\t' 'NR == 1 {for (i = 1; i <= NF; ++i) at[$i] = i; print "sentence1", "sentence2", "score"; next}
    {print $at["sentence1"], $at["sentence2"], $at["score"] / 5}' "$file" >"$out/$part.tsv"
done
train "$model" --train "$out/train.tsv" --val "$out/dev.tsv" --vocab models/tweet_sentiment/vocab.txt
table
