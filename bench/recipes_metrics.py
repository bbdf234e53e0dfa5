"""Computes each recipe's metric from the outputs that onnxruntime computes for the exported file.
Hugging Face's tokenizers, Pillow, numpy and the csv module make the inputs. scikit-learn and SciPy
compute the scores, or formulas published by the scores' authors.

metrics_of(recipe, folder of the run, models/) -> rows with metric, onnxruntime, tolerance. For
counts, one item may differ (two scores equal up to rounding); numbers agree to 1e-5 of their size.
"""

import collections
import csv
import json
import math
import re
import string

import convergence
import feeds_check as feeds
import numpy as np


def row(metric, value, items=None, **more):
    tolerance = 1.01 / items if items else 1e-5 * (1 + abs(float(value)))
    return {"metric": metric, "onnxruntime": float(value), "tolerance": tolerance, **more}


def session_of(folder, name="model.onnx"):
    return feeds.Made.session(None, folder / name)


def tokenizer_of(models, length, **truncation):
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(str(models / "tweet_sentiment" / "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(length, **truncation)
    return tokenizer


def table(path):
    with open(path, newline="", encoding="utf-8-sig") as f:
        if path.suffix == ".tsv":
            rows = [line.rstrip("\r\n").split("\t") for line in f]
            return [dict(zip(rows[0], r)) for r in rows[1:]]
        return list(csv.DictReader(f))


def outputs(folder, names, encodings):
    """Returns the exported file's outputs for each text, in order."""
    out = dict(feeds.run_padded(session_of(folder), names, encodings))
    return [out[r] for r in range(len(encodings))]


# --- images and tables -----------------------------------------------------------------------------------------------


def images(folder, models):
    sample = models / "lenet" / "sample"
    x = convergence.idx(sample / "t10k-images-idx3-ubyte.gz").astype(np.float32)[:, None] / 255
    y = convergence.idx(sample / "t10k-labels-idx1-ubyte.gz")
    session = session_of(folder)
    name = session.get_inputs()[0].name
    said = [session.run(["logits"], {name: x[at : at + 250]})[0].argmax(1) for at in range(0, len(x), 250)]
    return [row("accuracy", (np.concatenate(said) == y).mean(), len(y))]


def membranes(folder, models):
    from PIL import Image

    sample, hits, pixels, session = models / "unet" / "sample", np.zeros((2, 2), np.int64), 0, session_of(folder)
    for path in sorted((sample / "val_image").iterdir()):
        x = np.asarray(Image.open(path).convert("L"), np.float32)[None, None] / 255
        truth = np.asarray(Image.open(sample / "val_mask" / path.name)) == 255
        said = session.run(["logits"], {"image": x})[0][0].argmax(0)
        np.add.at(hits, (truth.astype(int), said), 1)
        pixels += truth.size
    both = np.diag(hits)
    return [row("miou", (both / (hits.sum(0) + hits.sum(1) - both)).mean(), pixels / 100)]  # tolerance: 100 pixels


def sales(folder, models):
    """Returns the metric of the file that accepts raw rows, fed with the cells of the CSV files."""
    import recipes_torch_jobs as jobs

    with open(models / "rossmann" / "sample" / "store.csv", newline="") as f:
        stores = {r["Store"]: r for r in csv.DictReader(f)}
    rows = [r | stores[r["Store"]] for r in table(folder.parent / "val.csv")]
    columns, session, feed = jobs.dated(rows), session_of(folder, "raw_rows.onnx"), {}
    for i in session.get_inputs():
        cells = columns[i.name]
        texts = i.type == "tensor(string)"
        feed[i.name] = np.array(cells, object)[:, None] if texts else np.array([[float(c or "nan")] for c in cells])
    predicted, wanted = session.run(None, feed)[0][:, 0].astype(np.float64), np.array(columns["Sales"], np.float64)
    return [row("rmspe", np.sqrt(np.mean(((wanted - predicted) / wanted) ** 2)))]


# --- texts -----------------------------------------------------------------------------------------------------------


def similarity(folder, models):
    from scipy.stats import spearmanr

    rows = table(models / "glue" / "sample" / "stsb_dev.tsv")
    encodings = tokenizer_of(models, 128).encode_batch([(r["sentence1"], r["sentence2"]) for r in rows])
    said = [float(o[0].reshape(-1)[0]) for o in outputs(folder, ["logits"], encodings)]
    return [row("spearman", spearmanr(said, [float(r["score"]) for r in rows]).statistic, len(rows))]


def cosines(folder, models):
    from scipy.stats import spearmanr

    rows, tokenizer = table(models / "glue" / "sample" / "stsb_dev.tsv"), tokenizer_of(models, 128)
    sides = []
    for column in ("sentence1", "sentence2"):
        encodings = tokenizer.encode_batch([r[column] for r in rows])
        sides.append(np.array([o[0] for o in outputs(folder, ["sentence_embedding"], encodings)], np.float64))
    a, b = (s / np.linalg.norm(s, axis=1, keepdims=True) for s in sides)
    return [row("spearman", spearmanr((a * b).sum(1), [float(r["score"]) for r in rows]).statistic, len(rows))]


def entity_f1(folder, models):
    """Returns conlleval's F1: an entity counts if its type and all of its words match."""
    path, texts, tags = models / "ner" / "sample" / "dev.conll", [], []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if not line.strip():
            texts, tags = texts + [[]], tags + [[]]
        else:
            if not texts:
                texts, tags = [[]], [[]]
            texts[-1].append(line.split("\t")[0])
            tags[-1].append(line.split("\t")[1].strip())
    texts, tags = [t for t in texts if t], [t for t in tags if t]
    encodings = [tokenizer_of(models, 128).encode(words, is_pretokenized=True) for words in texts]
    names = feeds.labels_of(session_of(folder))
    found = wanted = both = 0
    for encoding, truth, (logits,) in zip(encodings, tags, outputs(folder, ["logits"], encodings)):
        said = ["O"] * len(truth)
        for token, word in reversed(list(enumerate(encoding.word_ids))):  # a word gets the label of its first token
            if word is not None:
                said[word] = names[int(logits[token].argmax())]
        got, want = ({e[:3] for e in feeds.entities(t, [0.0] * len(t))} for t in (said, truth))
        found, wanted, both = found + len(got), wanted + len(want), both + len(got & want)
    return [row("entity_f1", 2 * both / (found + wanted), (found + wanted) / 2)]


def spans(folder, models, asked, length, stride, longest):
    """Returns for each (question, text) the best span of all windows, as text."""
    encodings, of = [], []
    tokenizer = tokenizer_of(models, length, stride=stride, strategy="only_second")
    for q, pair in enumerate(asked):
        e = tokenizer.encode(*pair)
        encodings += [e, *e.overflowing]
        of += [q] * (1 + len(e.overflowing))
    best = [(-math.inf, 0, 0)] * len(asked)
    for w, logits in enumerate(outputs(folder, ["start_logits", "end_logits"], encodings)):
        passage = [i for i, s in enumerate(encodings[w].sequence_ids) if s == 1]
        if not passage:
            continue
        score, first, last = feeds.best_span(*logits, passage[0], passage[-1] + 1, longest)
        if score > best[of[w]][0]:
            best[of[w]] = (score, encodings[w].offsets[first][0], encodings[w].offsets[last][1])
    return [text[begin:end] for (_, text), (_, begin, end) in zip(asked, best)]


def jaccard(one, other):  # similarity of the sets of lower-case words; 0.5 if both are empty
    one, other = set(one.lower().split()), set(other.lower().split())
    return len(one & other) / len(one | other) if one or other else 0.5


def selected_text(folder, models):
    rows = table(models / "tweet_extraction" / "sample" / "dev.csv")
    said = spans(folder, models, [(r["sentiment"], r["text"]) for r in rows], 96, 32, 96)
    with open(folder / "answers.csv", newline="", encoding="utf-8") as f:
        told = [r["predicted_answer"] for r in csv.DictReader(f)]
    wanted = [r["selected_text"] for r in rows]
    exact = sum(a in r["text"] for a, r in zip(told, rows)) / len(rows)
    return [row("span_jaccard", np.mean([jaccard(a, b) for a, b in zip(said, wanted)]), len(rows)),
            row("answers.csv: share of answers that are exact parts of their text", 1.0, printed=exact),
            row("answers.csv: share equal to onnxruntime's", np.mean([a == b for a, b in zip(said, told)]), len(rows), printed=1.0)]  # fmt: skip


def normalize_answer(s):  # SQuAD's evaluate-v1.1.py, as published
    text = "".join(c for c in s.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1_score(prediction, truth):
    said, wanted = normalize_answer(prediction).split(), normalize_answer(truth).split()
    same = sum((collections.Counter(said) & collections.Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted)) if same else 0


def squad_f1(folder, models):
    data = json.loads((models / "qa" / "sample" / "dev.json").read_text(encoding="utf-8"))["data"]
    asked = [(q, p["context"]) for article in data for p in article["paragraphs"] for q in p["qas"]]
    said = spans(folder, models, [(q["question"], text) for q, text in asked], 256, 64, 30)
    f1 = [max(f1_score(s, a["text"]) for a in q["answers"]) for (q, _), s in zip(asked, said)]
    return [row("span_f1", np.mean(f1), len(f1))]


def by_language(folder, models):
    from sklearn.metrics import accuracy_score

    rows = table(models / "xnli" / "sample" / "xnli.test.tsv")
    encodings = tokenizer_of(models, 128).encode_batch([(r["sentence1"], r["sentence2"]) for r in rows])
    names = feeds.labels_of(session_of(folder))
    said = [names[int(o[0].argmax())] for o in outputs(folder, ["logits"], encodings)]
    printed = json.loads((folder / "test_metrics.json").read_text())
    truth = [{"contradictory": "contradiction"}.get(r["gold_label"], r["gold_label"]) for r in rows]
    of = collections.defaultdict(list)
    for r, s, t in zip(rows, said, truth):
        of[r["language"]].append((t, s))
    out = [row("accuracy", accuracy_score(truth, said), len(rows), printed=printed["accuracy"])]
    for language, pairs in sorted(of.items()):
        told = printed["groups"]["language"][language]["accuracy"]
        out.append(row(f"accuracy ({language})", accuracy_score(*zip(*pairs)), len(pairs), printed=told))
    return out


def perplexity(folder, models):
    """Returns the perplexity of the texts, concatenated with the end-of-text token between them, in blocks of 128
    tokens."""
    from tokenizers import ByteLevelBPETokenizer

    here = models / "language_model"
    tokenizer = ByteLevelBPETokenizer(str(here / "vocab.json"), str(here / "merges.txt"))
    end = tokenizer.token_to_id("<|endoftext|>")
    lines = [t for t in (here / "sample" / "dev.txt").read_text(encoding="utf-8").splitlines() if t.strip()]
    ids = [i for e in tokenizer.encode_batch(lines) for i in [*e.ids, end]]
    session, total, count = session_of(folder), 0.0, 0
    for at in range(0, len(ids), 128):
        x = np.array([ids[at : at + 128]], np.int64)
        p = np.log(feeds.softmax(session.run(["logits"], {"input_ids": x, "attention_mask": np.ones_like(x)})[0][0]))
        total -= p[np.arange(x.size - 1), x[0, 1:]].sum()
        count += x.size - 1
    return [row("perplexity", math.exp(total / count))]


METRICS = {"lenet": images, "lenet_data_parallel": images, "big_project": images, "unet": membranes, "rossmann": sales,
           "glue": similarity, "embeddings": cosines, "ner": entity_f1, "tweet_extraction": selected_text, "qa": squad_f1,
           "xnli": by_language, "language_model": perplexity}  # fmt: skip


def metrics_of(name, folder, models):
    return METRICS[name](folder, models)
