#!/usr/bin/env bash
# Trains an adapter for SmolLM2-135M-Instruct in int4, so that it answers questions about a text in few words.
#   models/chat_lora/run.sh                    200 conversations made of models/qa/sample
#   models/chat_lora/run.sh --full DATA_DIR    TyDi QA: DATA_DIR has tydiqa.goldp.en.train.json and tydiqa.goldp.en.dev.json
# Environment variables: PYTHON, a Python with the packages of requirements.txt, which make the model's folder.
# RECIPE_DECODER, the folder of another decoder, for which no packages are needed. RECIPE_LONGEST, the maximum number of
# characters of a text (1000). Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

python=${PYTHON:-python3}
folder=${RECIPE_DECODER:-${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}/SmolLM2-135M-Instruct-int4}
[ -f "$folder/genai_config.json" ] || "$python" "$here/make_folder.py" --out "$folder"

sources=(models/qa/sample/train.json models/qa/sample/dev.json) limit=200
[ -z "$full" ] || { sources=("$full/tydiqa.goldp.en.train.json" "$full/tydiqa.goldp.en.dev.json") limit=0; }
chats=("$python" "$here/make_chats.py" --longest "${RECIPE_LONGEST:-1000}")
"${chats[@]}" "${sources[0]}" "$out/train.jsonl" --limit $limit
"${chats[@]}" "${sources[1]}" "$out/dev.jsonl"
train "$folder" --train "$out/train.jsonl" --val "$out/dev.jsonl"
table
for precision in $precisions; do
  printf '\n== answers before and after, %s\n' "$out/$precision"
  "$python" "$here/answers.py" --program "$program" --folder "$folder" --run "$out/$precision" --chats "$out/dev.jsonl"
done
