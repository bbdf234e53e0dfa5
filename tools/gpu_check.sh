#!/usr/bin/env bash
# Proof on a GPU, in slices that each end within 10 minutes:
#   tools/gpu_check.sh correctness|train|sanitize|bench [CASE...]|all
# correctness: every operator, the zoo, the update and repeats on the device (test_cuda [gpu]); train: fine-tunes on CPU and GPU in
# fp32, fp16 and bf16, losses side by side, model.onnx twice the same bytes; sanitize: compute-sanitizer where it is;
# bench: bench/gpu.py, a case (bert_b32 bert_b128 minilm lenet mlp unet) or all.
# Uses the bundle that it lies in (tools/gpu_bundle.sh), else builds. Each slice adds to gpu-DATE.json and gpu-DATE.md in
# docs/results (in $OUT when that is set). Ends with 1 when anything failed.
set -uo pipefail
cd "$(dirname "$0")/.."
slice=${1:-}
case $slice in correctness | train | sanitize | bench | all) shift ;; *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;; esac

if [ -x bin/test_cuda ]; then  # a bundle
  bin=$PWD/bin
  export ONNX_AMP_TEST_DATA=$PWD/tests/data
  # CUDA's libraries: a toolkit's, or those that came with PyTorch.
  torch=$(python3 -c 'import glob, os, torch; print(":".join(glob.glob(os.path.join(os.path.dirname(torch.__path__[0]), "nvidia", "*", "lib"))))' 2>/dev/null || true)
  ours=$PWD/lib:/usr/local/cuda/lib64:$torch:${LD_LIBRARY_PATH:-}
else
  prefix=$(./cmake/bootstrap.sh | tail -1) || exit 1
  cmake --preset release -DCMAKE_PREFIX_PATH="$prefix" -DONNX_AMP_CUDA=ON >/dev/null && cmake --build build -t test_cuda onnx-amp-finetune cuda_plugin || exit 1
  mkdir -p build/gpu_check && ln -sf ../tests/test_cuda ../onnx-amp-finetune ../libonnx_amp_cuda.so build/gpu_check/
  bin=$PWD/build/gpu_check
  ours=${LD_LIBRARY_PATH:-}
fi
program=$bin/onnx-amp-finetune
ours() { LD_LIBRARY_PATH=$ours "$@"; }

gpu=${GPU_CHECK_DEVICE:-cuda}  # cpu: to try this script where there is no GPU
results=${OUT:-docs/results}
mkdir -p "$results"
work=$(mktemp -d)
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache}  # where choices of algorithms are kept: the same for all runs
mkdir -p "$XDG_CACHE_HOME"
trap 'rm -rf "$work"' EXIT
report=$results/gpu-$(date -u +%Y-%m-%d)
failed=0
# note SLICE NAME ok|failed|skipped TEXT
note() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$work/notes.tsv"
  echo "$1 $2: $3 $4"
  [ "$3" != failed ] || failed=1
}
# tests SLICE NAME SECONDS COMMAND...: test_cuda must run tests, and skip none
tests() {
  local slice=$1 name=$2 limit=$3 rc=0 last
  shift 3
  LD_LIBRARY_PATH=$ours timeout "$limit" "$@" >"$work/log" 2>&1 || rc=$?
  last=$(grep -E '^(test cases|All tests)' "$work/log" | tail -1)
  if [ $rc = 0 ] && [ -n "$last" ] && ! grep -q SKIPPED "$work/log"; then
    note "$slice" "$name" ok "$last"
  else
    tail -60 "$work/log"
    note "$slice" "$name" failed "exit $rc; ${last:-it did not end}; $(grep -m1 -A3 -E 'SKIPPED|FAILED|ERROR SUMMARY: [1-9]' "$work/log" | tr '\n' ' ')"
  fi
}

correctness() {
  tests correctness kernels 240 "$bin/test_cuda" "GPU: kernels agree with the CPU's"
  tests correctness update 60 "$bin/test_cuda" "GPU: the update is the CPU's"
  tests correctness zoo 120 "$bin/test_cuda" "GPU: models agree with PyTorch"
  tests correctness repeats 120 "$bin/test_cuda" "GPU: the same bits in every run and without CUDA graphs"
  tests correctness memory 30 "$bin/test_cuda" "GPU: memory comes back"
}

# finetune ENTRY DEVICE FOLDER FLAGS...
finetune() {
  local entry=tests/data/zoo/$1 device=$2 folder=$3
  shift 3
  ours timeout 60 "$program" "$entry/model.onnx" --train "$entry/batch.safetensors" --loss cross_entropy --device "$device" --no_shuffle \
    --epochs 200 --max_steps 200 --lr 1e-3 --weight_decay 0.01 --dropout 0 --output_dir "$work/$folder" --overwrite --quiet >"$work/log" 2>&1
}
train() {
  local entry precision flags name
  for entry in bert_cls_eager_ts14 lenet_relu_dyn18; do
    for precision in fp32 fp16 bf16; do
      name=$entry-$precision
      flags=$([ $precision = fp32 ] || echo "--use_$precision")
      if finetune $entry cpu "$name-cpu" $flags && finetune $entry "$gpu" "$name-gpu" $flags && finetune $entry "$gpu" "$name-again" $flags; then
        if said=$(python3 tools/gpu_report.py curves "$work/$name-cpu/metrics.jsonl" "$work/$name-gpu/metrics.jsonl" --precision $precision); then
          note train "$name losses" ok "$said"
        else
          note train "$name losses" failed "$said"
        fi
        if cmp -s "$work/$name-gpu/model.onnx" "$work/$name-again/model.onnx"; then
          note train "$name repeats" ok "model.onnx twice the same bytes"
        else
          note train "$name repeats" failed "model.onnx differs between two runs"
        fi
      else
        note train "$name" failed "$(tail -3 "$work/log" | tr '\n' ' ')"
      fi
    done
  done
}

sanitize() {
  local tool=compute-sanitizer
  command -v $tool >/dev/null || tool=/usr/local/cuda/bin/compute-sanitizer
  if ! command -v "$tool" >/dev/null; then
    note sanitize compute-sanitizer skipped "there is none on this machine"
    return
  fi
  # Sections by name: operators with shared memory, scatters and library calls.
  for op in Softmax LayerNorm ReduceSum CrossEntropyGrad ScatterElementsAdd Transpose MatMul TopK; do
    tests sanitize "memcheck $op" 60 "$tool" --tool memcheck --error-exitcode 9 "$bin/test_cuda" "GPU: kernels agree with the CPU's" -c "$op"
  done
  for op in Softmax LayerNorm ReduceSum; do
    tests sanitize "racecheck $op" 60 "$tool" --tool racecheck --error-exitcode 9 "$bin/test_cuda" "GPU: kernels agree with the CPU's" -c "$op"
  done
}

bench() {
  # A wrapper, so that Python itself does not see the bundle's libraries.
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$ours" "$program" >"$work/program"
  chmod +x "$work/program"
  local case
  for case in ${*:-mlp lenet minilm unet bert_b32 bert_b128}; do
    if timeout "${BENCH_SECONDS:-570}" python3 bench/gpu.py --device "$gpu" --binary "$work/program" --cases "$case" --out "$work/bench-$case.json" >"$work/bench-$case.md" 2>"$work/log"; then
      note bench "$case" ok "losses agree with PyTorch's"
    else
      note bench "$case" failed "exit $?; $(tail -3 "$work/log" | tr '\n' ' ')"
    fi
    cat "$work/bench-$case.md"
  done
}

ours "$program" version
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu --format=csv 2>/dev/null || echo "there is no nvidia-smi: no driver?"
case $slice in
  all) correctness; train; sanitize; bench "$@" ;;
  *) "$slice" "$@" ;;
esac
python3 tools/gpu_report.py write "$report" "$work" "$(cat commit 2>/dev/null || git describe --always --dirty)" || failed=1
exit $failed
