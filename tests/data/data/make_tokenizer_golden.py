"""Writes tokenizers/*.json, small tokenizers of every kind, and tokenizers/lines.jsonl: difficult lines tokenized with each
of them by Hugging Face's tokenizers.

    python make_tokenizer_golden.py T5_TOKENIZER_JSON

The tokenizers are trained on the tweets of models/tweet_sentiment; only
precompiled_charsmap (SentencePiece's nmt_nfkc) is read from T5_TOKENIZER_JSON (t5-small's, Apache 2.0). Needs: tokenizers
0.23."""
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tokenizers")
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
HARD = ["", " ", "  two  spaces ", "\tHello, y'all! How are you 😁 ?", "I'VE it's IT'S ſ's don't", "👩‍👩‍👧‍👦 family 🏳️‍🌈", "fi ﬁ Å Å ½ ²",
        "<s>x</s> a <mask> b", "[MASK]  x", "the fox foxes  the end", "<X>  <X> a", "É é É", "A.B.C", "ab<|endoftext|>cd", "١٢٣ ४५६ 12345",
        "한국어 텍스트 각 각", "ก็ ที่ น้ำ", "मेरा नाम क्षत्रिय", "à̖b ́ ́", "ﷺ", "İstanbul ıI ΑΣ σς", "᠎​﻿ x",
        "日本語のテキスト、中文。", "x" * 120, "a\rb\x01c\x7f", "ℌ①㍿ｶﾞ", "𝒜𝔅 𞤀𞤁 𖹀", "``quoted'' text", "▁a ▁ b"]


def save(t, name):
    t.save(os.path.join(OUT, name + ".json"), pretty=False)


def byte_level(texts):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)])])
    save(t, "byte_level")


def roberta(texts):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    names = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, special_tokens=names, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    save(t, "roberta")


def byte_fallback(texts):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    t.train_from_iterator(texts[:400], trainers.BpeTrainer(vocab_size=700, special_tokens=names, limit_alphabet=80, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    j = json.loads(t.to_str())
    j["added_tokens"] = j["added_tokens"][:3]  # byte tokens belong to the model only
    save(Tokenizer.from_str(json.dumps(j)), "byte_fallback")


def clip(texts):
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>",
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False)
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("</w>", " ")])
    save(t, "clip")


def unigram(texts, charsmap):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=700, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    save(t, "unigram")


def word_piece(texts):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=700, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    save(t, "word_piece")


def forms():
    """Writes tokenizers whose tokens are bytes, so that every change of the text and every split is
    visible. They have added tokens of all kinds."""
    vocab = dict([("<unk>", 0)] + [(f"<0x{i:02X}>", i + 1) for i in range(256)])
    for name, normalizer, splitter in (
            ("nfd", normalizers.NFD(), pre_tokenizers.Whitespace()),
            ("nfkc", normalizers.NFKC(), pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous")])),
            ("nfkd", normalizers.NFKD(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")])),
            ("strip", normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip(), normalizers.Nmt()]),
             pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits(False)]))):
        t = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
        t.normalizer = normalizer
        t.pre_tokenizer = splitter
        t.add_tokens([AddedToken("fox", single_word=True), AddedToken(" the ", rstrip=True, normalized=True), AddedToken("<X>", lstrip=True, rstrip=True, normalized=False),
                      AddedToken("É", normalized=True), AddedToken("A.B", normalized=False)])
        t.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
        save(t, "form_" + name)


def randoms(n):
    r = random.Random(5)
    pools = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x780), (0x900, 0xE00), (0xE00, 0x1000), (0x1100, 0x1200), (0x1E00, 0x2100),
             (0x2100, 0x2C00), (0x3000, 0x3400), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFFFF), (0x10000, 0x11000), (0x16000, 0x17000), (0x1D400, 0x1FB00)]
    out = []
    for _ in range(n):
        own, text = r.sample(pools, 2), ""
        for _ in range(r.randint(1, 12)):
            text += r.choice(" \t .,'éfox<X>") if r.random() < 0.3 else chr(r.randrange(*r.choice(own)))
        out.append("".join(c for c in text if not 0xD800 <= ord(c) < 0xE000))
    return out


def main():
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(HERE, "../../../models/tweet_sentiment/train.csv"), encoding="utf8") as f:
        texts = f.read().splitlines()[:2000]
    steps = json.load(open(sys.argv[1], encoding="utf8"))["normalizer"]
    charsmap = [s for s in steps.get("normalizers", [steps]) if s["type"] == "Precompiled"][0]["precompiled_charsmap"]
    byte_level(texts), roberta(texts), byte_fallback(texts), clip(texts), word_piece(texts), forms()
    import base64
    unigram(texts[:600], base64.b64decode(charsmap))
    lines = HARD + randoms(120)
    with open(os.path.join(OUT, "lines.jsonl"), "w", encoding="utf8") as out:
        for name in sorted(n[:-5] for n in os.listdir(OUT) if n.endswith(".json")):
            t = Tokenizer.from_file(os.path.join(OUT, name + ".json"))
            for i, line in enumerate(lines):
                e = t.encode(line) if i % 7 else t.encode(line, lines[(i + 3) % len(lines)])
                flat = [x for o in e.offsets for x in o]
                row = dict(name=name, text=line, pair=None if i % 7 else lines[(i + 3) % len(lines)], ids=e.ids, offsets=flat, types=e.type_ids,
                           decoded=t.decode(e.ids))
                out.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
