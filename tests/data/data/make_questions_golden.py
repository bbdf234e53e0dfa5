"""Features of questions as Hugging Face's run_qa makes them, and scores as SQuAD's evaluation script (1.1) computes them.

Run in this folder: python make_questions_golden.py ../../../models/tweet_sentiment/vocab.txt
The texts are in this script. Features are computed by transformers' fast tokenizer and run_qa's prepare_train_features.
"""
import json
import re
import string
from collections import Counter

from transformers import BertTokenizerFast
import sys

long = " ".join(f"In {1900 + i} the river Ålva rose by {i} metres, and Dr. O'Neill-Smith measured it." for i in range(12))
passages = [
    ("The São Paulo Museum (1947–1968) was designed by Lina Bo Bardi; it's 8,000 m² large.", [
        ("Who designed the museum?", ["Lina Bo Bardi"]), ("When was it built?", ["1947–1968", "1947"]),
        ("How large is it?", ["8,000 m²", "000"]), ("Which museum?", ["São Paulo Museum"])]),
    ("東京都は日本の首都です。İstanbul'da [SEP] ﬁve naïve\u0301 cafés … \U0001f469\u200d\U0001f680 end", [
        ("首都?", ["日本", "東京都"]), ("Where?", ["İstanbul'da"]), ("What?", ["ﬁve naïve\u0301 cafés"]), ("Last?", ["end"]),
        ("Special?", ["[SEP]"])]),
    (long, [("When did the river rise by 11 metres?", ["1911"]), ("Who measured?", ["Dr. O'Neill-Smith"]),
            ("By how much in 1905?", ["5 metres"])])]
data = {"version": "1.1", "data": [{"paragraphs": [
    {"context": c, "qas": [{"id": f"{p}.{i}", "question": q, "answers": [{"text": a, "answer_start": c.index(a)} for a in answers]}
                           for i, (q, answers) in enumerate(qas)]} for p, (c, qas) in enumerate(passages)]}]}
json.dump(data, open("questions.json", "w", encoding="utf-8"), ensure_ascii=False, indent=1)

with open("questions.jsonl", "w", encoding="utf-8") as out:
    for lower, length, stride in ((True, 48, 16), (True, 200, 32), (False, 64, 8)):
        tokenizer = BertTokenizerFast(sys.argv[1], do_lower_case=lower)
        for c, qas in passages:
            for q, answers in qas:
                t = tokenizer(q, c, truncation="only_second", max_length=length, stride=stride, padding=False,
                              return_overflowing_tokens=True, return_offsets_mapping=True)
                start_char = c.index(answers[0])
                end_char = start_char + len(answers[0])
                rows = []
                for i, offsets in enumerate(t["offset_mapping"]):
                    ids, sequence = t["input_ids"][i], t.sequence_ids(i)
                    first, last = sequence.index(1), len(sequence) - 1 - sequence[::-1].index(1)
                    if not (offsets[first][0] <= start_char and offsets[last][1] >= end_char):
                        label = [0, 0]
                    else:  # run_qa's two loops
                        s, e = first, last
                        while s < len(offsets) and sequence[s] == 1 and offsets[s][0] <= start_char:
                            s += 1
                        while e >= 0 and sequence[e] == 1 and offsets[e][1] >= end_char:
                            e -= 1
                        label = [s - 1, e + 1]
                    rows.append([ids, label, [list(o) for o in offsets[first:last + 1]]])
                out.write(json.dumps([lower, length, stride, rows]) + "\n")


def normalize_answer(s):  # from SQuAD's evaluate-v1.1.py, as published
    def remove_articles(text):
        return re.sub(r'\b(a|an|the)\b', ' ', text)

    def white_space_fix(text):
        return ' '.join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return ''.join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(s.lower())))


def f1_score(prediction, ground_truth):
    prediction_tokens = normalize_answer(prediction).split()
    ground_truth_tokens = normalize_answer(ground_truth).split()
    common = Counter(prediction_tokens) & Counter(ground_truth_tokens)
    num_same = sum(common.values())
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(prediction_tokens)
    recall = 1.0 * num_same / len(ground_truth_tokens)
    return (2 * precision * recall) / (precision + recall)


def jaccard(one, other):  # of sets of lower-case words; 0.5 if both are empty (Tweet Sentiment Extraction)
    one, other = set(one.lower().split()), set(other.lower().split())
    return len(one & other) / len(one | other) if one or other else 0.5


texts = ["The  Eiffel-Tower, a tower", "eiffel tower", "an apple; the end.", "The", "", "ÉCOLE Normale\u00a0Supérieure", "école normale",
         "theatre and anaconda", "a-b the-c", "$5 (five)", "5 five", "«a» b", "x the y the", "x y y", "naïve the\u2003 café", "1,000.5"]
json.dump({"normal": [[t, normalize_answer(t)] for t in texts],
           "f1": [[a, b, f1_score(a, b)] for a in texts for b in texts],
           "jaccard": [[a, b, jaccard(a, b)] for a in texts for b in texts]}, open("../trainer/answers.json", "w"))
