"""Makes the expected predictions of rows of text: by onnxruntime on the exported file, with inputs by Hugging Face's
tokenizers, one row at a time.

    make_predict_golden.py onnx-amp-finetune        (packages torch, transformers, onnx, onnxruntime, numpy, seqeval)

TASK/model.onnx is a tiny BERT (or GPT-2) that PyTorch exported and the program trained for a few steps, so it has the
metadata that users' models have. TASK/golden.json has the predictions for every row of TASK/input.*, computed from
onnxruntime's outputs: softmax, sigmoid, best span, entities by seqeval, mean loss of a text.
"""
import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import transformers
from seqeval.metrics.sequence_labeling import get_entities

HERE = Path(__file__).parent
TOKENIZERS = HERE.parent / "data" / "tokenizers"
BINARY = str(Path(sys.argv[1]).resolve())
LENGTH = 20  # --max_seq_len: some rows are longer
SENTENCES = [
    "I just went to the house and it was amazing", "never again, what a sad mad week :(", "She lost her phone... cant find it!", "so happy today",
    "London is calling later, says Anna from Microsoft", "e.g. \"quoted, with a comma\" and a tab", "it's 10 past 10 in New York, good luck everyone and always look on the bright side of life my friends",
    "Ünïcödé naïve café 東京 👩‍🚀 end", "bad", "we put our pretty list in the line for the thought that he hates being late on Mondays because of rain"]
LABELS = ["good", "bad", "bad", "good", "so so", "so so", "good", "so so", "bad", "bad"]


def fast(name, **special):
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZERS / name), model_input_names=["input_ids", "token_type_ids", "attention_mask"], **special)


def bert(cls, **more):
    c = transformers.BertConfig(vocab_size=700, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=64, **more)
    return cls(c)


def export(model, path, inputs, outputs):
    model.eval()
    ids = torch.tensor([[2, 40, 41, 42, 3], [2, 43, 44, 3, 0]])
    feed = {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": torch.zeros_like(ids)}

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *args):
            out = self.model(**dict(zip(inputs, args)), return_dict=True)
            return tuple(out[o] for o in outputs)

    axes = {n: {0: "batch", 1: "sequence"} for n in inputs} | {o: {0: "batch"} for o in outputs}
    torch.onnx.export(Plain(), tuple(feed[i] for i in inputs), path, input_names=inputs, output_names=outputs, dynamic_axes=axes, opset_version=14, dynamo=False)


def train(task, model, data, name, flags):
    """Trains for three steps, stores the exported file, and returns an onnxruntime session for it."""
    with tempfile.TemporaryDirectory() as t:
        (Path(t) / name).write_text(data, encoding="utf-8")
        subprocess.run([BINARY, model, "--train", f"{t}/{name}", "--output_dir", f"{t}/run", "--max_steps", "3", "--lr", "0.05", "--lr_scheduler", "constant",
                        "--max_seq_len", str(LENGTH), "--quiet", "--device", "cpu", *flags], check=True, stdout=subprocess.DEVNULL)
        folder = HERE / task
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_bytes((Path(t) / "run" / "model.onnx").read_bytes())
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])


def run(session, encoding):
    wanted = {i.name for i in session.get_inputs()}
    feed = {k: np.array([v], np.int64) for k, v in encoding.items() if k in wanted}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def softmax(x):
    e = np.exp(np.asarray(x, np.float64) - np.max(x))
    return e / e.sum()


def table(rows, delimiter=","):
    out = io.StringIO()
    w = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    w.writerows(rows)
    return out.getvalue()


def lines(objects):
    return "".join(json.dumps(o, ensure_ascii=False) + "\n" for o in objects)


def write(task, name, text, golden):
    (HERE / task / name).write_text(text, encoding="utf-8")
    (HERE / task / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def classification(folder):
    tokenizer = fast("word_piece.json")
    model = f"{folder}/c.onnx"
    export(bert(transformers.BertForSequenceClassification, num_labels=3), model, ["input_ids", "attention_mask", "token_type_ids"], ["logits"])
    s = train("classification", model, table([["id", "review", "mood"]] + [[i, t, l] for i, (t, l) in enumerate(zip(SENTENCES, LABELS))]), "t.csv",
              ["--text_columns", "review", "--label_column", "mood", "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    names = sorted(set(LABELS))
    golden = []
    for t in SENTENCES:
        p = softmax(run(s, tokenizer(t, truncation=True, max_length=LENGTH))["logits"][0])
        golden.append({"predicted_label": names[int(p.argmax())], "probability": p.max(), "probabilities": dict(zip(names, p))})
    write("classification", "input.csv", table([["id", "review", "probability"]] + [[i * 7, t, "kept"] for i, t in enumerate(SENTENCES)]), golden)


def regression(folder):
    tokenizer = fast("word_piece.json")
    model = f"{folder}/r.onnx"
    export(bert(transformers.BertForSequenceClassification, num_labels=1), model, ["input_ids", "attention_mask", "token_type_ids"], ["logits"])
    pairs = [(SENTENCES[i], SENTENCES[(i * 3 + 1) % 10]) for i in range(10)]
    s = train("regression", model, table([["a", "b", "score"]] + [[a, b, i / 4] for i, (a, b) in enumerate(pairs)], "\t"), "t.tsv",
              ["--text_columns", "a,b", "--label_column", "score", "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    golden = [{"prediction": float(run(s, tokenizer(a, b, truncation="longest_first", max_length=LENGTH))["logits"][0, 0])} for a, b in pairs]
    write("regression", "input.tsv", table([["b", "a"]] + [[b, a] for a, b in pairs], "\t"), golden)


def multilabel(folder):
    tokenizer = fast("word_piece.json")
    model = f"{folder}/m.onnx"
    export(bert(transformers.BertForSequenceClassification, num_labels=3), model, ["input_ids", "attention_mask"], ["logits"])
    s = train("multilabel", model, lines({"text": t, "tags": [["x", "y"], ["z"], ["x"], []][i % 4]} for i, t in enumerate(SENTENCES)), "t.jsonl",
              ["--task", "multilabel", "--text_columns", "text", "--label_column", "tags", "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    golden = []
    for t in SENTENCES:
        p = 1 / (1 + np.exp(-run(s, tokenizer(t, truncation=True, max_length=LENGTH))["logits"][0].astype(np.float64)))
        golden.append({"predicted_labels": [n for n, v in zip("xyz", p) if v > 0.5], "probabilities": dict(zip("xyz", p))})
    write("multilabel", "input.jsonl", lines({"text": t, "n": i / 2, "deep": {"a": [i, None]}, "none": None} for i, t in enumerate(SENTENCES)), golden)


def token(folder):
    tokenizer = fast("word_piece.json", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]")
    model = f"{folder}/t.onnx"
    export(bert(transformers.BertForTokenClassification, num_labels=5), model, ["input_ids", "attention_mask"], ["logits"])
    names = ["B-org", "B-place", "I-org", "I-place", "O"]
    rng = np.random.default_rng(4)
    text = "\n".join("".join(f"{w}\t{names[rng.integers(5)]}\n" for w in t.split()) for t in SENTENCES)
    s = train("token", model, text, "t.conll", ["--task", "token", "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    golden = []
    for t in SENTENCES:
        words = t.split()
        e = tokenizer(words, is_split_into_words=True, truncation=True, max_length=LENGTH)
        logits = run(s, e)["logits"][0]
        p = np.array([softmax(x) for x in logits])
        tags, best, previous = [None] * len(words), [0.0] * len(words), None
        for i, w in enumerate(e.word_ids()):
            if w is not None and w != previous:
                tags[w], best[w] = names[int(p[i].argmax())], float(p[i].max())
            previous = w
        entities = []
        joined = " ".join(words)
        starts = np.cumsum([0] + [len(w) + 1 for w in words])
        for kind, first, last in get_entities([x or "O" for x in tags]):
            begin, end = int(starts[first]), int(starts[last]) + len(words[last])
            entities.append({"type": kind, "text": joined[begin:end], "begin": begin, "end": end, "probability": float(np.mean(best[first:last + 1]))})
        golden.append({"predicted_tags": tags, "entities": entities})
    write("token", "input.conll", "\n".join("".join(w + "\n" for w in t.split()) for t in SENTENCES), golden)


def span(folder):
    tokenizer = fast("word_piece.json", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]")
    model = f"{folder}/s.onnx"
    export(bert(transformers.BertForQuestionAnswering), model, ["input_ids", "attention_mask", "token_type_ids"], ["start_logits", "end_logits"])
    passages = [SENTENCES[6] + ". " + SENTENCES[4] + ". " + SENTENCES[9], SENTENCES[7] + " " + SENTENCES[5], SENTENCES[3]]
    questions = ["who?", "where is it", "what a week"]

    def squad(answered):
        return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": p, "qas": [
            {"id": f"{i}-{j}", "question": q} | ({"answers": [{"text": p[3:12], "answer_start": 3}]} if answered else {}) for j, q in enumerate(questions)]} for i, p in enumerate(passages)]}]}, ensure_ascii=False)

    stride, longest = 6, 8
    s = train("span", model, squad(True), "t.json", ["--task", "span", "--doc_stride", str(stride), "--max_answer_length", str(longest), "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    golden = []
    for p in passages:
        for q in questions:
            e = tokenizer(q, p, truncation="only_second", max_length=LENGTH, stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True)
            best = (-np.inf, None)
            for w in range(len(e["input_ids"])):
                out = run(s, {k: e[k][w] for k in ("input_ids", "attention_mask", "token_type_ids")})
                start, end = out["start_logits"][0].astype(np.float64), out["end_logits"][0].astype(np.float64)
                inside = [i for i, x in enumerate(e.sequence_ids(w)) if x == 1]
                for i in inside:
                    for j in inside:
                        if i <= j < i + longest and start[i] + end[j] > best[0]:
                            best = (start[i] + end[j], (e["offset_mapping"][w][i][0], e["offset_mapping"][w][j][1]))
            begin, end = best[1]
            golden.append({"predicted_answer": p[begin:end], "answer_begin": begin, "answer_end": end, "score": best[0]})
    write("span", "input.json", squad(False), golden)


def retrieval(folder):
    tokenizer = fast("word_piece.json")

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert(transformers.BertModel, hidden_act="relu")

        def forward(self, input_ids, attention_mask, return_dict=True):
            h = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            m = attention_mask.unsqueeze(-1).to(h.dtype)
            return {"sentence_embedding": (h * m).sum(1) / m.sum(1)}

    model = f"{folder}/e.onnx"
    export(Pooled(), model, ["input_ids", "attention_mask"], ["sentence_embedding"])
    pairs = [(SENTENCES[i], SENTENCES[(i * 3 + 1) % 10]) for i in range(10)]
    s = train("retrieval", model, table([["query", "answer"]] + [list(p) for p in pairs]), "t.csv",
              ["--loss", "multiple_negatives", "--text_columns", "query,answer", "--tokenizer", str(TOKENIZERS / "word_piece.json")])
    embed = lambda t: run(s, tokenizer(t, truncation=True, max_length=LENGTH))["sentence_embedding"][0].tolist()
    write("retrieval", "input.csv", table([["query", "answer"]] + [list(p) for p in pairs]), [{"query_embedding": embed(a), "answer_embedding": embed(b)} for a, b in pairs])


def language(folder):
    tokenizer = fast("byte_level.json")
    c = transformers.GPT2Config(vocab_size=900, n_positions=64, n_embd=12, n_layer=1, n_head=2)
    model = f"{folder}/l.onnx"
    export(transformers.GPT2LMHeadModel(c), model, ["input_ids", "attention_mask"], ["logits"])
    texts = SENTENCES + [""]
    s = train("language", model, lines({"text": t} for t in SENTENCES), "t.jsonl",
              ["--loss", "causal_lm", "--text_columns", "text", "--tokenizer", str(TOKENIZERS / "byte_level.json")])
    golden = []
    for t in texts:
        e = tokenizer(t, truncation=True, max_length=LENGTH)
        x = run(s, {k: e[k] for k in ("input_ids", "attention_mask")})["logits"][0].astype(np.float64)
        nll = [-np.log(softmax(x[i])[e["input_ids"][i + 1]]) for i in range(len(e["input_ids"]) - 1)]
        golden.append({"loss": float(np.mean(nll)) if nll else None, "perplexity": float(np.exp(np.mean(nll))) if nll else None, "tokens": len(nll)})
    write("language", "input.jsonl", lines({"text": t} for t in texts), golden)


torch.manual_seed(5)
with tempfile.TemporaryDirectory() as folder:
    for f in (classification, regression, multilabel, token, span, retrieval, language):
        f(folder)
        print(f.__name__)
