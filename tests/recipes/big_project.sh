#!/usr/bin/env bash
# Tests two properties of the recipe big_project. First, a run in fp16 with a dynamic loss scale is stopped by SIGTERM and
# resumed. Accumulation, EMA, MixUp, RandAugment, cosine schedule and scale continue, so the exported file is equal to that of
# an uninterrupted run. Second, --optimizer adahessian trains with second derivatives in the same loop and applies every step.
#   tests/recipes/big_project.sh PROGRAM FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
export ONNX_AMP_PROGRAM=$1 RECIPE_OUT=$2
rm -rf "$RECIPE_OUT"
mkdir -p "$RECIPE_OUT"
here=models/big_project data=models/lenet/sample
# Steps 3 and 17 overflow: the scale falls before and after the stop, and grows in between.
few=(--max_steps 24 --limit_val 100 --warmup_steps 4 --init_loss_scale 4096 --scale_growth_interval 5 --inject_overflow 3,17)
models/big_project/run.sh --precisions fp16 "${few[@]}" >"$RECIPE_OUT/whole.log" 2>&1 || { tail -40 "$RECIPE_OUT/whole.log"; exit 1; }
whole=$RECIPE_OUT/big_project/fp16 run=$RECIPE_OUT/stopped

command=("$ONNX_AMP_PROGRAM" "$RECIPE_OUT/big_project/vit.onnx" --config $here/config.json --use_fp16
  --train $data/train-images-idx3-ubyte.gz --val $data/t10k-images-idx3-ubyte.gz "${few[@]}" --output_dir "$run")
steps() { if [ -f "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; }
"${command[@]}" >"$RECIPE_OUT/stopped.log" 2>&1 &
while [ "$(steps "$run")" -lt 8 ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
kill -TERM $! 2>/dev/null || true
code=0
wait $! || code=$?
if [ $code -ne 75 ]; then
  echo "a stopped run ends with 75, this one with $code"
  tail -40 "$RECIPE_OUT/stopped.log"
  exit 1
fi
echo "stopped after $(steps "$run") of 24 steps"
"${command[@]}" --resume auto >"$RECIPE_OUT/resumed.log" 2>&1 || { tail -40 "$RECIPE_OUT/resumed.log"; exit 1; }
cmp "$whole/model.onnx" "$run/model.onnx"
column() { sed 's/.*"step":\([0-9]*\).*/\1 &/; s/^\([0-9]*\) .*"loss_scale":\([^,}]*\).*/\1 \2/' "$1/metrics.jsonl"; }
diff <(column "$whole") <(column "$run")
[ "$(column "$whole" | cut -d' ' -f2 | sort -u | wc -l)" -ge 3 ] || { echo "the loss scale never moved"; exit 1; }
echo "resumed: the same model.onnx, the same loss scales"

models/big_project/run.sh --precisions fp32 --optimizer adahessian --lr 0.05 --max_steps 3 --limit_val 100 --warmup_steps 0 \
  >"$RECIPE_OUT/adahessian.log" 2>&1 || { tail -40 "$RECIPE_OUT/adahessian.log"; exit 1; }
curved=$RECIPE_OUT/big_project/fp32
[ -s "$curved/model.onnx" ] && [ "$(grep -c '"loss":[0-9].*"skipped":false' "$curved/metrics.jsonl")" -eq 3 ] || { cat "$curved/metrics.jsonl"; exit 1; }
echo "adahessian: 3 steps, each applied"
