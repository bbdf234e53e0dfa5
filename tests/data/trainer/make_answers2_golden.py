"""Makes golden data of SQuAD 2.0: n-best lists and answers by run_qa's postprocess_qa_predictions, and scores by
transformers' squad_evaluate.

Usage: make_answers2_golden.py utils_qa.py squad_metrics.py (transformers 4: examples/pytorch/question-answering/ and
src/transformers/data/metrics/). Run in this folder; writes answers2.json.
"""

import importlib.util
import json
import logging
import random
import sys
import tempfile
import types

import numpy as np


def load(path, name, **stubs):
    for module, members in stubs.items():
        sys.modules[module.replace("__", ".")] = types.SimpleNamespace(**members)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for package in ("t", "t.data", "t.data.metrics", "t.models"):
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = []
qa = load(sys.argv[1], "utils_qa")
squad = load(sys.argv[2], "t.data.metrics.squad_metrics", t__models__bert={"BasicTokenizer": None},
             t__utils={"logging": types.SimpleNamespace(get_logger=logging.getLogger)})

random.seed(5)
rng = np.random.default_rng(5)
WORDS = "the a cat sat on Mat, red. green Sky an Éclair 1,000 and ran".split()
examples, features, start, end = [], [], [], []
for q in range(24):
    context = " ".join(random.choice(WORDS) for _ in range(14))
    offsets, at = [], 0
    for word in context.split():
        offsets.append((at, at + len(word)))
        at += len(word) + 1
    answers = []
    if q % 3:
        for _ in range(random.randint(1, 3)):
            first = random.randrange(14)
            last = min(13, first + random.randrange(3))
            answers.append({"text": context[offsets[first][0]:offsets[last][1]], "answer_start": offsets[first][0]})
    if q == 4:  # an answer that is empty after normalization counts as no answer
        first = context.split().index("the") if "the" in context.split() else 0
        answers = [{"text": context.split()[first], "answer_start": offsets[first][0]}]
    examples.append({"id": str(q), "context": context, "answers": answers})
    for part in (offsets[:9], offsets[5:]) if q % 2 else (offsets,):  # [CLS] question [SEP] passage [SEP]
        mapping = [None] * 4 + part + [None]
        features.append({"example_id": str(q), "offset_mapping": mapping})
        s, e = (rng.normal(0, 2, 19).astype(np.float32) for _ in range(2))
        if answers and q % 2 == 0:  # some are right
            for i, place in enumerate(mapping):
                if place and place[0] == answers[0]["answer_start"]:
                    s[i] += 7
                if place and place[1] == answers[0]["answer_start"] + len(answers[0]["text"]):
                    e[i] += 7
        s[0] += 2
        e[0] += 2
        start.append(s)
        end.append(e)


class Example:
    def __init__(self, e):
        self.qas_id, self.answers = e["id"], e["answers"]


class Rows(list):  # the part of a dataset's interface that run_qa uses
    def __getitem__(self, key):
        return [r[key] for r in self] if isinstance(key, str) else list.__getitem__(self, key)


def nbest(size, negative, threshold):
    folder = tempfile.mkdtemp()
    said = qa.postprocess_qa_predictions(Rows(examples), features, (np.array(start), np.array(end)), negative, size, 6,
                                         threshold, folder, log_level=logging.ERROR)
    lists = json.load(open(folder + "/nbest_predictions.json"))
    odds = json.load(open(folder + "/null_odds.json")) if negative else {}
    return {"said": said, "nbest": lists, "odds": odds}


out = {"examples": examples, "features": features, "start": [s.tolist() for s in start],
       "end": [e.tolist() for e in end], "longest": 6, "runs": []}
# All 19 positions are among the 20 best starts and ends, so every span is a candidate. Of more than 20 spans, the best
# 20 are kept.
for size, negative, threshold in ((20, False, 0.0), (20, True, 0.0), (20, True, 1.5), (20, True, -2.0)):
    run = nbest(size, negative, threshold)
    run.update(n_best=size, negative=negative, threshold=threshold)
    if negative:
        # The best spans, without a threshold, because squad_evaluate applies the threshold itself.
        spans = {i: next(p["text"] for p in run["nbest"][i] if p["text"]) for i in run["nbest"]}
        run["scores"] = squad.squad_evaluate([Example(e) for e in examples], spans, run["odds"], threshold)
        empty = {i: "" if run["odds"][i] > threshold else t for i, t in spans.items()}
        assert empty == run["said"]
        if threshold:  # the n-best list does not depend on the threshold
            del run["nbest"]
    out["runs"].append(run)
json.dump(out, open("answers2.json", "w"))
