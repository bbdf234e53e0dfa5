#!/usr/bin/env python3
"""Cuts small samples out of XNLI, in the layout of PaddlePaddle's BERT/reader/cls.py.

    make_xnli.py SOURCE FOLDER [PAIRS_TO_TRAIN DEV TEST [LANGUAGE ...]] [--train LANGUAGE ...]

SOURCE has dev-LANGUAGE.tsv and test-LANGUAGE.tsv (premise, hypothesis, label; rows parallel across languages). Each language's training
file has pairs of the development set that no other file has; xnli.dev.tsv has the ones behind them, xnli.test.tsv the first of the
test set, both in all languages. --train: training files of these alone. Columns that the reader does not look at are empty.
"""
import os
import sys

COLUMNS = ("language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2 "
           "promptID pairID genre label1 label2 label3 label4 label5 sentence1_tokenized sentence2_tokenized match").split()


def rows(source, part, language):
    with open(os.path.join(source, f"{part}-{language}.tsv"), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f]


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines("\t".join(line) + "\n" for line in lines)


def published(source, part, languages, first, count):
    out = [COLUMNS]
    for language in languages:
        for premise, hypothesis, label in rows(source, part, language)[first:first + count]:
            line = [""] * len(COLUMNS)
            line[0], line[1], line[6], line[7] = language, label, premise, hypothesis
            out.append(line)
    return out


def main():
    words = sys.argv[1:]
    at = words.index("--train") if "--train" in words else len(words)
    words, trained = words[:at], words[at + 1:]
    source, folder = words[:2]
    train, dev, test = (int(n) for n in words[2:5] or (12, 12, 12))
    languages = words[5:] or ["de", "en"]
    trained = trained or languages
    os.makedirs(os.path.join(folder, "multinli"), exist_ok=True)
    for i, language in enumerate(trained):
        pairs = rows(source, "dev", language)[i * train:(i + 1) * train]
        lines = [[p, h, "contradictory" if label == "contradiction" else label] for p, h, label in pairs]
        write(os.path.join(folder, "multinli", f"multinli.train.{language}.tsv"), [["premise", "hypo", "label"]] + lines)
    write(os.path.join(folder, "xnli.dev.tsv"), published(source, "dev", languages, len(trained) * train, dev))
    write(os.path.join(folder, "xnli.test.tsv"), published(source, "test", languages, 0, test))


if __name__ == "__main__":
    main()
