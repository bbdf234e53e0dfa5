#!/usr/bin/env python3
"""Tests that ranks that mpirun starts write the same bytes as threads of one process. Exit 4: skipped, with the
reason."""
import argparse, json, os, shutil, signal, socket, subprocess, tempfile, time

from handshake import connected, say_hello
from launcher import ENVIRONMENT, MPIRUN, require
from processes import children_of
from small_texts import write_texts

parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--model", required=True)
args = parser.parse_args()
args.binary, args.model = os.path.abspath(args.binary), os.path.abspath(args.model)
require(args.binary)
environment = ENVIRONMENT
work = tempfile.mkdtemp()
write_texts(work)


def run(name, before, *more, code=0):
    command = before + [args.binary, args.model, "--train", "train.csv", "--val", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text",
                        "--output_dir", name, "--max_seq_len", "16", "--lr", "1e-3", "--dropout", "0.2", "--device", "cpu", "--use_fp16", "true",
                        "--gradient_accumulation_steps", "2", "--eval_batch_size", "8", *more]
    r = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert r.returncode == code, (command, r.returncode, r.stdout, r.stderr)
    return r


def same(a, b, *files):
    for name in files:
        x, y = (open(f"{work}/{run}/{name}", "rb").read() for run in (a, b))
        assert x == y, f"{name} of {a} and of {b} differ"


def losses(name):
    return [json.loads(line)["loss"] for line in open(f"{work}/{name}/metrics.jsonl")]


FILES = ["model.onnx", "eval.jsonl"]
for n in (2, 4):
    more = ["--batch_size", str(8 // n), "--max_steps", "20", "--save_steps", "10"]
    run(f"threads{n}", [], "--ranks", str(n), *more)
    r = run(f"mpi{n}", MPIRUN + ["-np", str(n)], *more)
    same(f"threads{n}", f"mpi{n}", *FILES)
    assert r.stdout.count("model:") == 1, r.stdout  # only rank 0 prints
    assert len(losses(f"mpi{n}")) == 20

# A run of four ranks is resumed by two. It equals an uninterrupted run up to the order of sums.
more = ["--batch_size", "2", "--max_steps", "10", "--resume_schedule", "hold", "--lr_scheduler", "constant"]
run("moved", MPIRUN + ["-np", "4"], *more)
more = ["--batch_size", "4", "--max_steps", "20", "--resume_schedule", "hold", "--lr_scheduler", "constant"]
run("moved", MPIRUN + ["-np", "2"], *more, "--resume", "auto")
run("whole", [], "--ranks", "2", *more)
assert len(losses("moved")) == 20
worst = max(abs(a - b) for a, b in zip(losses("moved"), losses("whole")))
assert worst < 1e-3, worst  # a 16-bit product may be rounded differently, by 2^-11 of its value

# A rank with other settings is refused; the message names the setting.
single = [args.binary, args.model, "--train", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text", "--output_dir", "other",
          "--max_steps", "2", "--device", "cpu", "--seed"]
r = subprocess.run(MPIRUN + ["-np", "1"] + single + ["1", ":", "-np", "1"] + single + ["2"], cwd=work, env=environment,
                   capture_output=True, text=True, timeout=120)
assert r.returncode != 0 and "seed" in r.stderr and "E_RANKS" in r.stderr, (r.returncode, r.stderr)

# Foreign connections to the socket of the handshake before MPI starts are refused, and so are processes without the token.
def names():
    with open("/proc/net/unix") as file:
        return {line.split()[-1] for line in file if "@onnx-amp-finetune." in line}


def late(token):  # the second rank connects after the foreign connections
    return ["sh", "-c", f'sleep 4; ONNX_AMP_RANK_TOKEN={token} exec "$@"', "rank"]


strangers = [args.binary, args.model, "--train", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text", "--output_dir", "strangers",
             "--max_steps", "2", "--device", "cpu", "--overwrite", "true", "--heartbeat", "5"]
for token, code, part in (("right", 0, "13 connections were not from ranks of this run: 12 silent, 1 without the run's token"),
                          ("wrong", 10, "the tokens differ")):
    before = names()
    process = subprocess.Popen(MPIRUN + ["-np", "1"] + strangers + [":", "-np", "1"] + late(token) + strangers, cwd=work, text=True,
                               env={**environment, "ONNX_AMP_RANK_TOKEN": "right"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.time() + 60
    while not names() - before:
        assert time.time() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.05)
    path = "\0" + (names() - before).pop()[1:]
    kept = [connected(0, socket.AF_UNIX, path) for _ in range(13)]
    assert say_hello(kept[0], {"rank": 1, "host": "stranger", "pid": 7}, "wrong!", "ranks of one machine") == {"refused": "the proof is wrong"}
    _, err = process.communicate(timeout=120)
    assert process.returncode == code and part in err, (token, process.returncode, err)

# If a rank is killed, the others end, too.
process = subprocess.Popen(MPIRUN + ["-np", "2"] + single[:-2] + ["cpu", "--max_steps", "100000", "--epochs", "1", "--overwrite", "true"], cwd=work,
                           env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
log = work + "/other/metrics.jsonl"
deadline = time.time() + 60
while time.time() < deadline and not (os.path.exists(log) and os.path.getsize(log) > 0):
    time.sleep(0.1)
children = children_of(process.pid)
assert len(children) == 2, children
os.kill(children[1], signal.SIGKILL)
begin = time.time()
process.wait(timeout=30)
took = time.time() - begin
assert process.returncode != 0 and took < 5, (process.returncode, took)


def alive(pid):  # an ended process stays as a zombie if no process waits for it
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


while any(alive(child) for child in children):
    assert time.time() - begin < 5, children
    time.sleep(0.1)
shutil.rmtree(work)
print("ok")
