"""Runs a model exported by feeds.py in onnxruntime, on inputs made by other tools (Hugging Face's
tokenizers, Pillow, the csv module), and compares with the predictions of `predict`: rows
compared, rows equal, the largest difference.
"""

import csv
import datetime
import gzip
import json
import math
import os
from pathlib import Path

import numpy as np

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

NUMBERS = 1e-5  # tolerance relative to 1 + |value|: fp32 sums in another order
BATCH = 32


class Made:
    """A trained case: model, inputs, and predictions."""

    def __init__(self, case, model, predicted, more):
        self.case, self.model, self.predicted, self.flags = case, model, predicted, case.train
        self.more = more  # path of a second result: the model for raw rows, or the predictions as arrays

    def flag(self, name, default):
        words = [str(w) for w in self.flags]
        return words[len(words) - 1 - words[::-1].index(name) + 1] if name in words else default

    def rows(self):
        with open(self.predicted, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def session(self, path=None):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # for a shared machine
        path = str(path or self.model)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Tally:
    def __init__(self, what):
        self.rows, self.equal, self.worst, self.what, self.unequal = 0, 0, 0.0, what, []

    def add(self, same, difference, told=None):
        self.rows += 1
        self.equal += bool(same)
        self.worst = max(self.worst, float(difference)) if math.isfinite(difference) else math.inf
        if not same and len(self.unequal) < 5:
            self.unequal.append([self.rows - 1, told])

    def result(self, **more):
        return {
            "rows": self.rows,
            "equal": self.equal,
            "largest_difference": self.worst,
            "of": self.what,
            "unequal": self.unequal,
            **more,
        }


def near(a, b, tolerance=NUMBERS):
    return a is not None and abs(a - b) <= tolerance * (1 + abs(b))


def softmax(x):
    x = np.asarray(x, np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- rows of text ---------------------------------------------------------------------------------------------------


def word_piece(case):
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(str(case.reads["file"]), lowercase=case.reads.get("lower_case", True))


def cells(made):
    """Returns the text columns of each row of the original file, by name or by number."""
    path, columns = Path(made.case.inputs), made.case.reads["columns"].split(",")
    with open(path, newline="", encoding="utf-8-sig") as f:
        tabs = path.suffix != ".csv"
        rows = [line.rstrip("\r\n").split("\t") for line in f if line.strip("\r\n")] if tabs else list(csv.reader(f))
    if columns[0].isdigit():
        return [[row[int(c)] for c in columns] for row in rows]
    return [[row[rows[0].index(c)] for c in columns] for row in rows[1:]]


def run_padded(session, outputs, encodings, pad=0):
    """Yields (row, the model's outputs without padding); rows of similar length are batched together."""
    names = {i.name for i in session.get_inputs()}
    order = sorted(range(len(encodings)), key=lambda r: len(encodings[r].ids))
    for at in range(0, len(order), BATCH):
        rows = order[at : at + BATCH]
        length = max(1, len(encodings[rows[-1]].ids))
        feed = {n: np.zeros((len(rows), length), np.int64) for n in names}
        if "input_ids" in feed:
            feed["input_ids"][:] = pad
        for i, r in enumerate(rows):
            e, n = encodings[r], len(encodings[r].ids)
            for name, values in (("input_ids", e.ids), ("attention_mask", e.attention_mask), ("token_type_ids", e.type_ids)):
                if name in feed:
                    feed[name][i, :n] = values
            if "position_ids" in feed:
                feed["position_ids"][i] = np.arange(length)
        got = session.run(outputs, feed)
        for i, r in enumerate(rows):
            yield r, [g[i] for g in got]


def logits_of(made):
    tokenizer = word_piece(made.case)
    tokenizer.enable_truncation(int(made.flag("--max_seq_len", 128)))
    texts = cells(made)
    encodings = tokenizer.encode_batch([t[0] if len(t) == 1 else tuple(t) for t in texts])
    out = dict(run_padded(made.session(), ["logits"], encodings))
    return [out[r][0] for r in range(len(texts))]


def labels_of(session):
    return json.loads(session.get_modelmeta().custom_metadata_map["labels"])


def classes(made):
    names, tally = labels_of(made.session()), Tally("probability")
    wanted = logits_of(made)
    said = made.rows()
    assert len(said) == len(wanted), (len(said), len(wanted))
    predicted = set()
    for row, logits in zip(said, wanted):
        p = softmax(logits)
        predicted.add(row["predicted_label"])
        worst = max(abs(row["probabilities"][n] - p[i]) for i, n in enumerate(names))
        tally.add(row["predicted_label"] == names[int(p.argmax())], worst, [row["probabilities"], p.tolist()])
    return tally.result(labels_predicted=len(predicted))


def numbers(made):
    tally, wanted, said = Tally("number"), logits_of(made), made.rows()
    assert len(said) == len(wanted), (len(said), len(wanted))
    for row, logits in zip(said, wanted):
        want = float(logits.reshape(-1)[0])
        tally.add(near(row["prediction"], want), abs(row["prediction"] - want), [row["prediction"], want])
    return tally.result()


# --- words ----------------------------------------------------------------------------------------------------------


def tagged_texts(path):
    texts, words = [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip():
                words.append(line.split("\t")[0])
            elif words:
                texts.append(words)
                words = []
    return texts + ([words] if words else [])


def entities(tags, probabilities):
    """Returns (type, first word, last word, probability) by conlleval's rules."""
    out, before = [], ("O", "")
    for i, tag in enumerate(tags):
        prefix, _, kind = (tag or "O").partition("-")
        if prefix != "O" and (prefix == "B" or before[0] == "O" or before[1] != kind):
            out.append([kind, i, i])
        elif prefix != "O":
            out[-1][2] = i
        before = (prefix, kind)
    return [(k, a, b, float(np.mean(probabilities[a : b + 1]))) for k, a, b in out]


def tags(made):
    tokenizer = word_piece(made.case)
    tokenizer.enable_truncation(int(made.flag("--max_seq_len", 128)))
    texts, session = tagged_texts(made.case.inputs), made.session()
    names, said, tally = labels_of(session), made.rows(), Tally("probability of a word's tag, of an entity")
    arrays = np.load(made.more)
    assert len(said) == len(texts), (len(said), len(texts))
    encodings = [tokenizer.encode(words, is_pretokenized=True) for words in texts]
    found = 0
    for r, (logits,) in sorted(run_padded(session, ["logits"], encodings), key=lambda x: x[0]):
        words, p = texts[r], softmax(logits)
        tagged, probabilities = [None] * len(words), [0.0] * len(words)
        for token, word in enumerate(encodings[r].word_ids):
            if word is not None and tagged[word] is None:
                tagged[word], probabilities[word] = names[int(p[token].argmax())], float(p[token].max())
        starts = np.cumsum([0] + [len(w) + 1 for w in words])
        want = [
            {"type": k, "text": " ".join(words[a : b + 1]), "begin": int(starts[a]), "end": int(starts[b + 1] - 1)}
            for k, a, b, _ in entities(tagged, probabilities)
        ]
        got = [{k: e[k] for k in ("type", "text", "begin", "end")} for e in said[r]["entities"]]
        found += len(got)
        same = said[r]["predicted_tags"] == tagged and got == want and said[r]["words"] == words
        pairs = zip(said[r]["entities"], entities(tagged, probabilities)) if got == want else []
        worst = max([abs(e["probability"] - w[3]) for e, w in pairs], default=0)
        worst = max(worst, float(np.abs(arrays["probability"][r, : len(words)] - probabilities).max()))
        same = same and arrays["predicted_tags"][r, : len(words)].tolist() == [names.index(t) if t else -100 for t in tagged]
        tally.add(same, worst, [said[r], tagged])
    return tally.result(entities=found)


# --- answers --------------------------------------------------------------------------------------------------------


def questions(made):
    if "columns" in made.case.reads:
        return [(q, text) for q, text in cells(made)]
    squad = json.loads(Path(made.case.inputs).read_text(encoding="utf-8"))["data"]
    return [(qa["question"], p["context"]) for article in squad for p in article["paragraphs"] for qa in p["qas"]]


def best_span(start, end, first, stop, longest):
    scores = start[first:stop, None].astype(np.float64) + end[None, first:stop]
    i = np.arange(stop - first)
    scores[(i[None] < i[:, None]) | (i[None] >= i[:, None] + longest)] = -np.inf
    at = int(scores.argmax())
    return scores.flat[at], first + at // len(i), first + at % len(i)


def answers(made):
    tokenizer, asked = word_piece(made.case), questions(made)
    length, longest = int(made.flag("--max_seq_len", 128)), int(made.flag("--max_answer_length", 30))
    tokenizer.enable_truncation(length, stride=int(made.flag("--doc_stride", 32)), strategy="only_second")
    windows, of = [], []
    for q, pair in enumerate(asked):
        e = tokenizer.encode(*pair)
        windows += [e, *e.overflowing]
        of += [q] * (1 + len(e.overflowing))
    best = [None] * len(asked)
    got = dict(run_padded(made.session(), ["start_logits", "end_logits"], windows))
    for w, e in enumerate(windows):
        passage = [i for i, s in enumerate(e.sequence_ids) if s == 1]
        if not passage:
            continue
        score, first, last = best_span(*got[w], passage[0], passage[-1] + 1, longest)
        if best[of[w]] is None or score > best[of[w]][0]:
            best[of[w]] = (score, e.offsets[first][0], e.offsets[last][1])
    said, tally = made.rows(), Tally("score")
    assert len(said) == len(asked), (len(said), len(asked))
    for row, (_, text), want in zip(said, asked, best):
        score, begin, end = want or (0.0, 0, 0)
        told = (row["predicted_answer"], row["answer_begin"], row["answer_end"])
        tally.add(told == (text[begin:end], begin, end), abs(row["score"] - score), [told, [begin, end], score])
    return tally.result(windows=len(windows))


# --- images ---------------------------------------------------------------------------------------------------------


def grey_images(made):
    with gzip.open(made.case.inputs) as f:
        data = f.read()
    n, h, w = (int.from_bytes(data[i : i + 4], "big") for i in (4, 8, 12))
    pixels = np.frombuffer(data, np.uint8, offset=16).reshape(n, 1, h, w).astype(np.float32) / 255
    session, said, tally = made.session(), made.rows(), Tally("probability")
    assert len(said) == n, (len(said), n)
    name, predicted = session.get_inputs()[0].name, set()
    for at in range(0, n, 500):
        for row, p in zip(said[at:], softmax(session.run(["logits"], {name: pixels[at : at + 500]})[0])):
            predicted.add(row["predicted_label"])
            worst = max(abs(row["probabilities"][str(c)] - p[c]) for c in range(len(p)))
            tally.add(row["predicted_label"] == str(int(p.argmax())), worst, p.tolist())
    return tally.result(labels_predicted=len(predicted))


def masks(made):
    """Compares predicted masks with those of onnxruntime. A row counts as equal if all pixels of its mask are equal."""
    from PIL import Image

    session, tally = made.session(), Tally("share of the pixels")
    record = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
    h, w = (int(x) for x in record["eval_transforms"].split("|")[0].split()[1].split(","))
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    seen = set()
    for path in sorted(Path(made.case.inputs).iterdir()):
        image = Image.open(path).convert("RGB")
        x = np.asarray(image.resize((w, h), Image.Resampling.BILINEAR), np.float32) / 255
        logits = session.run(None, {"image": ((x - mean) / deviation).transpose(2, 0, 1)[None]})[0]
        mask = Image.fromarray(logits[0].argmax(0).astype(np.uint8)).resize(image.size, Image.Resampling.NEAREST)
        said = np.asarray(Image.open(Path(made.predicted) / path.name))
        seen.update(np.unique(said).tolist())
        share = float((said != np.asarray(mask)).mean())
        tally.add(share == 0, share, [path.name, share])
    return tally.result(classes_predicted=len(seen), transforms=record["eval_transforms"])


# --- tables ---------------------------------------------------------------------------------------------------------

PARTS = {"Year": lambda d: d.year, "Month": lambda d: d.month, "Day": lambda d: d.day}


def raw_rows(made):
    """Compares with the outputs of the file for raw rows (--export_raw_rows), fed with the cells of the CSV files."""
    with open(made.case.reads["join"], newline="") as f:
        store = {row["Store"]: row for row in csv.DictReader(f)}
    session, tally = made.session(made.more), Tally("relative number")
    with gzip.open(made.case.inputs, "rt", newline="") as f, open(made.predicted, newline="") as g:
        source, said = csv.DictReader(f), csv.DictReader(g)
        while rows := [r for _, r in zip(range(20000), source)]:
            for row in rows:
                row.update({k: v for k, v in store[row["Store"]].items() if k not in row})
                day = datetime.date.fromisoformat(row["Date"])
                row.update({k: str(part(day)) for k, part in PARTS.items()})
            feed = {}
            for i in session.get_inputs():
                column = [[row[i.name]] for row in rows]
                texts = i.type == "tensor(string)"
                feed[i.name] = np.array(column, object) if texts else np.array([[float(c or "nan")] for (c,) in column])
            for want, row in zip(session.run(None, feed)[0].reshape(-1).tolist(), said):
                got = float(row["prediction"])
                tally.add(near(got, want, 1e-4), abs(got - want) / (1 + abs(want)), [got, want])
        assert next(said, None) is None, "predict wrote more rows"
    return tally.result()


# --- language -------------------------------------------------------------------------------------------------------


def texts(made):
    """Compares loss and number of tokens of each text. Long texts are divided into windows, in which each token counts
    once."""
    from tokenizers import ByteLevelBPETokenizer, Tokenizer

    if "folder" in made.case.reads:
        folder = made.case.reads["folder"]
        tokenizer = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    else:
        tokenizer = Tokenizer.from_file(str(made.case.reads["file"]))
    length = int(made.flag("--max_seq_len", 128))
    stride = int(made.flag("--doc_stride", 32)) if made.flag("--packing", "none") == "stride" else None
    tokenizer.enable_truncation(length, stride=stride or 0)
    lines = [t for t in Path(made.case.inputs).read_text(encoding="utf-8").splitlines() if t.strip()]
    windows, of = [], []
    for r, text in enumerate(lines):
        e = tokenizer.encode(text)
        parts = [e, *e.overflowing] if stride is not None else [e]
        windows += parts
        of += [(r, i) for i in range(len(parts))]
    sums, counts = [0.0] * len(lines), [0] * len(lines)
    for w, (logits,) in run_padded(made.session(), ["logits"], windows):
        (r, part), ids = of[w], windows[w].ids
        known = stride if part else 1  # tokens that the previous window has covered
        p = np.log(softmax(logits[: len(ids) - 1]))
        learnt = [(i, t) for i, t in enumerate(ids[1:]) if i + 1 >= known]
        sums[r] -= sum(p[i, t] for i, t in learnt)
        counts[r] += len(learnt)
    said, tally = made.rows(), Tally("loss of a token")
    assert len(said) == len(lines), (len(said), len(lines))
    for row, total, n in zip(said, sums, counts):
        same = row["tokens"] == n and near(row["loss"], total / n) and near(row["perplexity"], math.exp(total / n), 1e-4)
        tally.add(same, abs(row["loss"] - total / n), [row["tokens"], n, row["loss"], total / n])
    return tally.result(tokens=sum(counts), perplexity=math.exp(sum(sums) / sum(counts)))
