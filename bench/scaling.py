#!/usr/bin/env python3
"""Step time of data-parallel training on more devices than available: a simulation, and its
comparison with runs that can be made.

    python3 bench/scaling.py curve [--gradient_mb 440 --step_ms 60 --node 8 --node_gb_s 450 --net_gb_s 50 ...]
    sudo python3 bench/scaling.py validate --data SST2_DIR --vocab VOCAB [--ranks 2 4] [--rates 2gbit 8gbit]
        [--binary build/onnx-amp-finetune]

A step is forward, backward and update. Backward finishes gradients evenly over its time, those of
the word embedding last. A bucket is summed once it is finished and the previous one has been
summed:

    start(k) = max(finished(k), end(k - 1)), end(k) = start(k) + sum(k);  step = max(end of backward, end of the last sum) + update

sum(k) of S bytes over N ranks, at B bytes/s and a latency of a seconds per message:

    direct  2 (N - 1) / N S / B + 2 a            each rank to all others at once: this program on CPUs
    ring    2 (N - 1) / N S / B + 2 (N - 1) a    NCCL's algorithm for large messages
    tree    2 S / B + 2 log2(N) a                NCCL's double binary tree

Ranks of a node communicate over its own links, then nodes over the network, each rank with 1 /
(ranks of a node) of the bytes.

validate trains MiniLM with 2 and 4 processes over links of a chosen rate (bench/slow_link.py;
root). The model gets the step time over unlimited links (including copies and sums, which occupy a
core), the rows of the embedding's gradient, and the rate.
"""

import argparse
import math
import re
import statistics

MB = 1e6
BUCKET = 4 * 1024 * 1024


def sum_seconds(size, ranks, bandwidth, latency, how):
    if ranks == 1:
        return 0.0
    share = 2 * (ranks - 1) / ranks * size / bandwidth
    if how == "direct":
        return share + 2 * latency
    ring, tree = share + 2 * (ranks - 1) * latency, 2 * size / bandwidth + 2 * math.log2(ranks) * latency
    return {"ring": ring, "tree": tree, "best": min(ring, tree)}[how]


def bucket_seconds(size, ranks, link):
    """Returns how many seconds the all-reduce of a bucket takes: first within nodes, then between them."""
    inside = min(ranks, link.node)
    nodes = math.ceil(ranks / inside)
    seconds = sum_seconds(size, inside, link.node_bandwidth, link.node_latency, link.how)
    return seconds + sum_seconds(size / inside, nodes, link.bandwidth, link.latency, link.how)


def step_seconds(job, ranks, link, overlap=True):
    """Returns the simulated seconds of a step. job: bytes of dense gradients and of the embedding's, bytes of a bucket,
    seconds of a step without communication, and the shares of backward and update in them."""
    dense = [size for size in [job.bucket] * int(job.dense // job.bucket) + [job.dense % job.bucket] if size]
    backward_begin = job.seconds * (1 - job.backward - job.update)
    backward_end = job.seconds * (1 - job.update)
    finished, end = 0.0, 0.0
    for size in dense:
        finished += size
        ready = backward_begin + (backward_end - backward_begin) * finished / job.dense
        end = max(ready if overlap else backward_end, end) + bucket_seconds(size, ranks, link)
    table = job.table * ranks / 2 if job.rows else job.table  # rows are gathered: each rank sends its rows to all
    if table:
        end = max(backward_end, end) + bucket_seconds(table, ranks, link)
    return max(end, backward_end) + job.seconds * job.update


def curve(args):
    job = argparse.Namespace(dense=(args.gradient_mb - args.table_mb) * MB, table=args.table_mb * MB, rows=False, seconds=args.step_ms / 1e3,
                             backward=args.backward, update=args.update)
    link = argparse.Namespace(node=args.node, node_bandwidth=args.node_gb_s * 1e9, node_latency=args.node_us * 1e-6,
                              bandwidth=args.net_gb_s * 1e9, latency=args.net_us * 1e-6, how="best")
    print("| GPUs | step, sums behind backward | efficiency | step, sums after it | efficiency |\n|---:|---:|---:|---:|---:|")
    for n in (2**k for k in range(11)):
        job.bucket = args.bucket_mb * MB
        early = step_seconds(job, n, link)
        job.bucket = job.dense
        late = step_seconds(job, n, link, False)
        print(f"| {n:,} | {1e3 * early:.1f} ms | {job.seconds / early:.2f} | {1e3 * late:.1f} ms | {job.seconds / late:.2f} |")


def bits(rate):
    number, unit = re.fullmatch(r"([\d.]+)([mg])bit", rate).groups()
    return float(number) * {"m": 1e6, "g": 1e9}[unit]


def validate(args):
    from common import find_binary, find_minilm, pinned, scratch_dir
    from slow_link import SlowLink, lines_of, sentences

    def median_step(folder):
        return statistics.median(args.batch_size / line["samples_per_s"] for line in lines_of(folder, args.steps // 3))

    print("| ranks | link | step, free link | step | simulated | | sums after backward | simulated | |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    with scratch_dir() as scratch:
        binary, model = pinned(find_binary(args.binary), scratch), find_minilm(args.model)
        words = [binary, model, *sentences(args), "--overwrite"]
        for n in args.ranks:
            with SlowLink(n, "none") as link:
                link.train([*words, "--output_dir", f"{scratch}/free"])
            alone = n * median_step(f"{scratch}/free")
            for rate in args.rates:
                measured = {}
                with SlowLink(n, rate) as link:
                    for overlap in ("true", "false"):
                        link.train([*words, "--overlap_grad_reduce", overlap, "--output_dir", f"{scratch}/{overlap}"])
                        measured[overlap] = n * median_step(f"{scratch}/{overlap}")
                job = argparse.Namespace(dense=args.dense_mb * MB, table=args.rows * 385 * 4, rows=True, bucket=BUCKET, seconds=alone, backward=2 / 3, update=0.1)
                star = argparse.Namespace(node=1, node_bandwidth=1, node_latency=0, bandwidth=bits(rate) / 8, latency=args.latency_us * 1e-6,
                                          how="direct")
                cells = []
                for overlap in ("true", "false"):
                    simulated = step_seconds(job, n, star, overlap == "true")
                    cells += [f"{1e3 * measured[overlap]:.0f} ms", f"{1e3 * simulated:.0f} ms", f"{simulated / measured[overlap]:.2f}"]
                print(f"| {n} | {rate} | {1e3 * alone:.0f} ms | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    c = verbs.add_parser("curve", help="a table for 1 to 1,024 GPUs")
    c.set_defaults(run=curve)
    for name, default, what in [("gradient_mb", 440, "fp32 gradients: of bert-base"), ("table_mb", 0, "of these that backward finishes last"),
                                ("bucket_mb", 25, "of a bucket behind backward; after it all are one sum"), ("step_ms", 60, "a step on one GPU"), ("backward", 0.62, "its share of the step"),
                                ("update", 0.06, "the update's"), ("node_gb_s", 450, "of a GPU's links within a node, a direction"),
                                ("node_us", 3, "latency of a message there"), ("net_gb_s", 50, "of a GPU's network card"),
                                ("net_us", 8, "latency of a message there")]:
        c.add_argument(f"--{name}", type=float, default=default, help=f"{what} [{default}]")
    c.add_argument("--node", type=int, default=8, help="GPUs of a node [8]")
    v = verbs.add_parser("validate", help="beside runs of processes on this machine")
    v.set_defaults(run=validate)
    v.add_argument("--data", required=True)
    v.add_argument("--vocab", required=True)
    v.add_argument("--model")
    v.add_argument("--binary")
    v.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    v.add_argument("--rates", nargs="+", default=["2gbit", "8gbit"])
    v.add_argument("--steps", type=int, default=24)
    v.add_argument("--batch_size", type=int, default=32)
    v.add_argument("--dense_mb", type=float, default=22.7, help="of MiniLM-L3's gradients without the word embedding's")
    v.add_argument("--rows", type=int, default=300, help="of the word embedding that a batch looks up")
    v.add_argument("--latency_us", type=float, default=200)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
