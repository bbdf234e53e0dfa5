"""Labels of tagged words as Hugging Face's run_ner aligns them (packages transformers, tokenizers), and entities as seqeval
finds them.

Run in this folder: python make_tagged_golden.py ../../../models/tweet_sentiment/vocab.txt emerging.dev.conll
The second file is the development part of WNUT-17 (github.com/leondz/emerging_entities_17, CC BY 4.0). Its first 40 texts
are copied to tagged.conll, followed by three texts with unusual words.
"""
import json
import random
import sys

from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from transformers import BertTokenizerFast

texts = open(sys.argv[2], encoding="utf-8").read().replace("\r\n", "\n").strip("\n").split("\n\n")[:40]
odd = [[("Zürich", "B-location"), ("İstanbul", "I-location"), ("東京都", "B-location"), ("x" * 101, "O"), ("\u200d", "O")],
       [("don't", "O"), ("e.g.", "O"), ("[SEP]", "O"), ("U.S.A.", "B-location"), ("##ing", "O"), ("[mask]", "O")],
       [("ﬁancée", "B-person"), ("naïve-looking", "I-person"), ("…", "O"), ("👩‍🚀", "O"), ("1,000.50", "O")]]
with open("tagged.conll", "w", encoding="utf-8") as f:
    f.write("\n\n".join(texts + ["\n".join(f"{w}\t{t}" for w, t in o) for o in odd]) + "\n")

sentences = []
for block in open("tagged.conll", encoding="utf-8").read().strip("\n").split("\n\n"):
    rows = [line.split("\t") for line in block.split("\n")]
    sentences.append(([r[0] for r in rows], [r[-1] for r in rows]))
names = sorted({t for _, tags in sentences for t in tags}, key=lambda s: s.encode())
label_to_id = {n: i for i, n in enumerate(names)}
with open("tagged.jsonl", "w", encoding="utf-8") as f:
    f.write(json.dumps(names) + "\n")
    for lower, length in ((True, 24), (True, 200), (False, 24)):
        tokenizer = BertTokenizerFast(sys.argv[1], do_lower_case=lower)
        for words, tags in sentences:
            t = tokenizer(words, truncation=True, max_length=length, is_split_into_words=True)
            labels, previous = [], None
            for word in t.word_ids():  # run_ner's loop, label_all_tokens off
                labels.append(-100 if word is None or word == previous else label_to_id[tags[word]])
                previous = word
            f.write(json.dumps([lower, length, t["input_ids"], labels]) + "\n")

def apart(sentences):
    """True if each sentence has the entities that it has in the joined tags, from which seqeval computes scores. After "."
    a mark without a type may continue an entity of the sentence before."""
    joined, own = [], []
    for tags in sentences:
        own += [(kind, len(joined) + a, len(joined) + b) for kind, a, b in get_entities(tags)]
        joined += tags + ["O"]
    return get_entities(joined) == own


def random_cases(seed, count, tags, weights):
    rng = random.Random(seed)
    while count > 0:
        wanted = [rng.choices(tags, weights=weights, k=rng.randint(1, 9)) for _ in range(4)]
        got = [[t if rng.random() < 0.7 else rng.choice(tags) for t in w] for w in wanted]
        if not apart(wanted) or not apart(got):
            continue
        count -= 1
        yield {"wanted": wanted, "predicted": got, "entities": [get_entities(w) for w in wanted],
               "scores": [precision_score(wanted, got), recall_score(wanted, got), f1_score(wanted, got)]}


cases = list(random_cases(5, 40, ["O", "B-a", "I-a", "E-a", "S-a", "B-b-c", "I-b-c"], [4, 2, 2, 1, 1, 2, 2]))
# Marks without a type, and ".", which seqeval takes as outside of entities.
cases += random_cases(6, 40, ["O", ".", "B", "I", "E", "S", "I-a", "E-b-c"], [2, 4, 2, 3, 1, 1, 2, 1])
json.dump(cases, open("../trainer/entities.json", "w"))
