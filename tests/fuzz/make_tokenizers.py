"""Writes corpus/tokenizers/, the seeds for fuzzing tokenizer files. They are the tokenizers of tests/data/data/tokenizers with
small vocabularies, so that few of the changed bytes are in the texts of tokens.

    python make_tokenizers.py"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
FULL = HERE.parent / "data" / "data" / "tokenizers"
OUT = HERE / "corpus" / "tokenizers"
MOST = 40


def small(j):
    model = j["model"]
    vocab = model["vocab"]
    if isinstance(vocab, list):
        model["vocab"] = vocab[:MOST]
        return j
    special = {t["content"] for t in j["added_tokens"]}
    named = {model.get("unk_token"), "a</w>"}  # the reader recognizes CLIP by the second token
    kept = {t for i, t in enumerate(vocab) if i < MOST or t in special or t in named}
    merges = []
    for merge in model.get("merges", [])[:12]:
        a, b = merge if isinstance(merge, list) else merge.split(" ", 1)
        merges.append([a, b])
        kept |= {a, b, a + b.removeprefix(model.get("continuing_subword_prefix") or "")}
    model["vocab"] = {t: i for i, t in enumerate(t for t in vocab if t in kept)}
    if "merges" in model:
        model["merges"] = [m for m in merges if m[0] + m[1] in model["vocab"]]
    return j


def main():
    OUT.mkdir(exist_ok=True)
    for name in ("byte_fallback", "byte_level", "clip", "form_nfkc", "form_strip", "roberta", "word_piece", "unigram"):
        j = small(json.loads((FULL / f"{name}.json").read_text()))
        text = json.dumps(j, ensure_ascii=False, separators=(",", ":"))
        if name == "unigram":  # only the start of its charsmap, which has 300 KB
            for step in [j["normalizer"], *j["normalizer"].get("normalizers", [])]:
                if step["type"] == "Precompiled":
                    step["precompiled_charsmap"] = "CAAAAAAEAAAAAAAAYQA="
            text = json.dumps(j, ensure_ascii=False, separators=(",", ":"))
        (OUT / f"{name}.json").write_text(text)
        if name in ("clip", "roberta"):  # writes also vocab.json and merges.txt
            lines = ["#version: 0.2"] + [" ".join(m) for m in j["model"]["merges"]]
            vocab = json.dumps(j["model"]["vocab"], ensure_ascii=False)
            (OUT / f"{name}_files").write_text(vocab + "\n---\n" + "\n".join(lines) + "\n")
    for name in ("spm_bpe.model", "spm_unigram.model"):
        (OUT / name).write_bytes((FULL / name).read_bytes())
    (OUT / "vocab_txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "##s", "caf", "##e", "'"]) + "\n")


if __name__ == "__main__":
    main()
