"""Ranks in separate network namespaces, connected by links of a chosen rate. Needs root, ip and tc
(tbf).
"""

import json
import os
import re
import subprocess

PORT = "29571"


class SlowLink:
    """Emulates one machine per rank: namespace i has the address 10.99.77.(i+1) and sends at most at `rate` ("8gbit" is
    1 ms per MB; "none": unlimited). lossy: the queue holds little more than one packet, so that many are dropped."""

    def __init__(self, ranks, rate, lossy=False):
        self.ranks, self.rate = ranks, rate
        self.queue = ("burst", "4kb", "limit", "6kb") if lossy else ("burst", "256kb", "latency", "100ms")
        self.spaces = [f"amp-link-{r}" for r in range(ranks)]
        self.bridge = "amp-bridge"

    def __enter__(self):
        self.remove()
        run("ip", "netns", "add", self.bridge)
        inside = ("ip", "netns", "exec", self.bridge)
        run(*inside, "ip", "link", "add", "br0", "type", "bridge")
        run(*inside, "ip", "link", "set", "br0", "up")
        for r, space in enumerate(self.spaces):
            run("ip", "netns", "add", space)
            run("ip", "link", "add", "amp", "netns", space, "type", "veth", "peer", "name", f"port{r}", "netns", self.bridge)
            run(*inside, "ip", "link", "set", f"port{r}", "master", "br0", "up")
            own = ("ip", "netns", "exec", space)
            run(*own, "ip", "addr", "add", f"{self.address(r)}/24", "dev", "amp")
            run(*own, "ip", "link", "set", "amp", "up")
            run(*own, "ip", "link", "set", "lo", "up")
            if self.rate != "none":
                run(*own, "tc", "qdisc", "add", "dev", "amp", "root", "tbf", "rate", self.rate, *self.queue)
        return self

    def __exit__(self, *_):
        self.remove()

    def dropped(self, rank):
        """Returns the number of packets that the rank's full queue dropped."""
        told = subprocess.run(["ip", "netns", "exec", self.spaces[rank], "tc", "-s", "qdisc", "show", "dev", "amp"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return int(re.search(r"dropped (\d+)", told).group(1))

    def remove(self):
        for space in [*self.spaces, self.bridge]:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)

    @staticmethod
    def address(rank):
        return f"10.99.77.{rank + 1}"

    def train(self, words):
        """Runs the command in every namespace, as the ranks of one run. If one fails, ends the program with its output."""
        started = []
        for r, space in enumerate(self.spaces):
            env = dict(os.environ, OMP_WAIT_POLICY="passive")
            env.update(RANK=str(r), WORLD_SIZE=str(self.ranks), MASTER_ADDR=self.address(0), MASTER_PORT=PORT)
            own = list(map(str, words))
            started.append(subprocess.Popen(["ip", "netns", "exec", space, *own], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            text=True))
        for p in started:
            said = p.communicate()[1]
            if p.returncode:
                raise SystemExit(said[-2000:])


def run(*words):
    subprocess.run(words, check=True)


def sentences(args):
    """Returns the flags of a job on SST-2's sentences with one thread."""
    return ["--train", f"{args.data}/train.tsv", "--text_columns", "sentence", "--vocab", args.vocab, "--batch_size", args.batch_size,
            "--max_steps", args.steps, "--threads", 1, "--limit_train", 20000]


def lines_of(folder, skip):
    """Returns lines of metrics.jsonl without the first ones."""
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f][skip:]
