"""Golden values of the WordPiece tests from the reference tokenizer (Python packages tokenizers, transformers).

Run in this folder: python make_wordpiece_golden.py ../../../models/tweet_sentiment
"""
import csv
import json
import random
import sys
import unicodedata

from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizerFast

folder = sys.argv[1]
vocab = f"{folder}/vocab.txt"
tokenizer = BertWordPieceTokenizer(vocab, lowercase=True)
both = {lower: BertWordPieceTokenizer(vocab, lowercase=lower)._tokenizer for lower in (True, False)}


def fnv(data, h=0xCBF29CE484222325):
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def words(text, lower):
    t = both[lower]
    return [w for w, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(text))]


# 1. The words of "a" + code point + "b", hashed in blocks of 4096 code points: every code point, two cases.
with open("wordpiece_code_points.txt", "w") as f:
    for start in range(0, 0x110000, 4096):
        row = [f"{start:x}"]
        for lower in (True, False):
            h = 0xCBF29CE484222325
            for c in range(start, start + 4096):
                if not 0xD800 <= c < 0xE000:
                    h = fnv("".join(w + "\n" for w in words(f"a{chr(c)}b", lower)).encode(), h)
            row.append(f"{h:016x}")
        print(*row, file=f)

# 2. Order of combining marks: every pair of the marks that the removal of accents keeps.
kept = [c for c in range(0x110000) if unicodedata.combining(chr(c)) and words(f"a{chr(c)}", True) != ["a"]]
h = 0xCBF29CE484222325
for a in kept:
    for b in kept:
        h = fnv("".join(words(f"a{chr(a)}{chr(b)}", True)).encode() + b"\n", h)
with open("wordpiece_mark_pairs.txt", "w") as f:
    print(f"{h:016x}", *(f"{c:x}" for c in kept), file=f)

# 3. Lines that are hard to tokenize.
hand = [
    "", " ", "Hello, World!", "a\u2028b", "a\u2029b", "a\u0085b", "a\vb", "a\fb", "a\rb", "a\nb", "a\tb", "a\x1cb", "a\x00b",
    "a\ufffdb", "a\u200bb", "a\u200db", "a\u00adb", "a\ufeffb", "\ufeffstart", "a\u2060b", "a\u180eb", "a\u3000b", "a\u00a0b",
    "İstanbul", "ıI", "DİYARBAKIR", "i\u0307", "I\u0307", "ǅ Ǆ ǆ", "straße STRASSE ẞ", "ﬁnance ﬀ", "ΣΊΣΥΦΟΣ", "naïve café Ünïcödé",
    "e\u0301e\u0300", "\u0301", "a\u0315\u0300\u05ae\u0062", "q\u0307\u0323", "Å \u212b", "각 \u1100\u1161\u11a8", "한국어 문장입니다",
    "漢字かな交じり文", "か\u3099", "中文和English混合", "㐀㐁", "\U00020000\U0002a6d6", "\U0002b820\U0002b920", "\uf900\ufa0e",
    "\U0002f800", "日本語。テスト、です！", "สวัสดีชาวโลก", "नमस्ते दुनिया", "مرحبا بالعالم", "שָׁלוֹם עוֹלָם", "Привет, мир! Ёлка й",
    "Tiếng Việt có dấu", "👍", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "❤️ vs ❤", "👋🏽", "☺️:)", "1️⃣", "…", "‘quotes’ “double” «guillemets»", "—–-‐",
    "$100 €100 ¥100 £5", "50% & more @user #hashtag", "`d `ve ^_^ ~ | < > = +", "http://t.co/a_b?c=d&e=f", "don't won't it`s",
    "[CLS] in text [SEP]", "[MASK]", "a[MASK]b", "[mask] [Cls]", "[ SEP ]", "[[SEP]]", "[SEP][SEP]", "[PAD][UNK]", "[UNK]x", "[SEP",
    "[\u200bSEP]", "[unused1] [unused99]", "##ing ##", "#", "\\[SEP\\]", "a" * 100, "a" * 101, "é" * 100, "e\u0301" * 101, "漢" * 101,
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "x" * 99 + "é", "\u00ad" * 120 + "a" * 100, "\u0378\u0379",
    "\ue000private\uf8ff", "\U000f0000", "\U0010ffff", "\ufdd0", "\u0e33", "\u1e9b\u0323", "\u037e \u0387 \u1fef", "\u2126 \u212a",
    "\u00df\u1e9e", "Ⅷ ⅷ", "Ⓐⓐ", "𝐇𝐞𝐥𝐥𝐨", "ＡＢＣ　ａｂｃ！", "½ ² ³ ①", "\u16ea0", "\ua7cb\ua7dc", "\u1c89", "\u0600\u06dd\u070f",
    "\u1734\u1735", "\u111c9", "\u17b4\u17b5", "\u115f\u1160\u3164\uffa0", "\U000e0001\U000e0041", "\ufe0f\ufe00", "\u20dd\u20e3", "a\u20ddb",
]
random.seed(11)
pieces = (["[CLS]", "[SEP]", "[MASK]", "[", "##", " ", "\t", "\u2028", "\u0085", "\v", "\u200b", "İ", "ß", "Σ", "漢", "か\u3099", "각", "👍🏽"]
          + list("abcdefgABCDEFG .,!?'-"))
marks = [c for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"]
points = [c for c in range(0x20, 0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")]
for _ in range(220):
    line = ""
    for _ in range(random.randint(1, 16)):
        r = random.random()
        line += chr(random.choice(points)) if r < 0.15 else chr(random.choice(marks)) if r < 0.3 else \
            chr(random.randint(0x80, 0x2FFF)) if r < 0.45 else random.choice(pieces)
    hand.append(line)

fast = BertTokenizerFast(vocab)
with open("wordpiece_lines.jsonl", "w") as f:
    for line in hand:
        ids = tokenizer.encode(line).ids
        assert ids == fast(line)["input_ids"], line
        print(json.dumps({"text": line, "ids": ids}, separators=(",", ":")), file=f)

# 4. Pairs and truncation.
with open("wordpiece_pairs.jsonl", "w") as f:
    texts = ["", "one", "one two three four five", "a b c d e f g h i j k", "unbelievable things happen, don't they?"]
    for a in texts:
        for b in texts:
            for longest in (3, 4, 5, 6, 7, 8, 9, 12, 13, 20):
                tokenizer.enable_truncation(longest)
                e = tokenizer.encode(a, b)
                print(json.dumps({"a": a, "b": b, "max": longest, "ids": e.ids, "types": e.type_ids}, separators=(",", ":")), file=f)
tokenizer.no_truncation()

# 5. Real text: all ids of dev.csv, cut to 32, hashed.
rows = [r["text"] for r in csv.DictReader(open(f"{folder}/dev.csv", newline="", encoding="utf-8"))]
tokenizer.enable_truncation(32)
lines = "".join(" ".join(map(str, tokenizer.encode(t).ids)) + "\n" for t in rows)
with open("wordpiece_dev.txt", "w") as f:
    print(len(rows), sum(len(x.split()) for x in lines.splitlines()), f"{fnv(lines.encode()):016x}", file=f)
