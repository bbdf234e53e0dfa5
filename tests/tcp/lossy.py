#!/usr/bin/env python3
"""Trains with two ranks in separate network namespaces, connected by a slow link that drops packets. The model must have the
bytes of a run with two threads. Skipped (exit 4) if namespaces or links with a rate cannot be created."""
import argparse, os, shutil, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "mpi"), os.path.join(here, "..", "..", "bench")]
from slow_link import SlowLink
from small_texts import write_texts

if not (shutil.which("ip") and shutil.which("tc")):
    print("skipped: no ip or tc")
    sys.exit(4)
parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--model", required=True)
args = parser.parse_args()
work = tempfile.mkdtemp()
write_texts(work)
words = [os.path.abspath(args.binary), os.path.abspath(args.model), "--train", f"{work}/train.csv", "--val", f"{work}/train.csv", "--vocab",
         f"{work}/vocab.txt", "--text_columns", "text", "--max_seq_len", "16", "--lr", "1e-3", "--device", "cpu", "--threads", "1", "--output_dir"]


def bytes_of(run):
    with open(f"{work}/{run}/model.onnx", "rb") as f:
        return f.read()


try:
    subprocess.run([*words, f"{work}/threads", "--ranks", "2"], check=True, stdout=subprocess.DEVNULL)
    link = SlowLink(2, "20mbit", lossy=True)
    try:
        link.__enter__()
    except (OSError, subprocess.CalledProcessError) as e:
        link.remove()
        print(f"skipped: no network namespaces with links of a chosen rate: {e}")
        sys.exit(4)
    try:
        link.train([*words, f"{work}/lossy"])
        dropped = [link.dropped(r) for r in range(2)]
    finally:
        link.remove()
    assert min(dropped) > 0, "no packet was dropped: nothing is shown"
    assert bytes_of("threads") == bytes_of("lossy"), "another model"
    print(f"{dropped} packets dropped, the same model")
finally:
    shutil.rmtree(work)
