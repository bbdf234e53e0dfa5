"""Writes tokenizers/spm_unigram.model and spm_bpe.model, small SentencePiece models of the tweets of models/tweet_sentiment,
and tokenizers/spm_lines.jsonl, lines tokenized by SentencePiece. Needs: sentencepiece 0.2."""
import json
import os

import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tokenizers")
LINES = ["", "Hello, y'all!", "  two  spaces ", "I don't know... 12345 @user #tag", "été 😁 日本", "A.B.C (x) – £5", "x" * 60, "so good!!!"]


def main():
    with open(os.path.join(HERE, "../../../models/tweet_sentiment/train.csv"), encoding="utf8") as f:
        texts = [line for line in f.read().splitlines()[:1500] if line]
    common = dict(sentence_iterator=None, num_threads=1, minloglevel=2, normalization_rule_name="identity", character_coverage=0.99)
    rows = []
    for kind, more in (("unigram", dict(vocab_size=400, user_defined_symbols=["."])),
                       ("bpe", dict(vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, split_digits=True))):
        common["sentence_iterator"] = iter(texts)
        sentencepiece.SentencePieceTrainer.train(model_prefix=os.path.join(OUT, "spm_" + kind), model_type=kind, **common, **more)
        os.remove(os.path.join(OUT, f"spm_{kind}.vocab"))
        m = sentencepiece.SentencePieceProcessor(model_file=os.path.join(OUT, f"spm_{kind}.model"))
        rows += [dict(name="spm_" + kind, text=line, ids=m.encode(line)) for line in LINES + texts[:60]]
    with open(os.path.join(OUT, "spm_lines.jsonl"), "w", encoding="utf8") as out:
        out.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in rows)


if __name__ == "__main__":
    main()
