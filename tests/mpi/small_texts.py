"""Texts of two classes and their vocabulary, for runs of a few steps."""

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "so", "day", "is"]
WORDS = ["good", "so", "day", "bad", "is"]


def write_texts(folder, count=29):
    """Writes vocab.txt and train.csv (text, label)."""
    rows = [" ".join(WORDS[(3 * i + w * w) % 5] for w in range(i % 9 + 1)) + (" bad,poor" if i % 2 else " good,fine") for i in range(count)]
    for name, lines in (("vocab.txt", TOKENS), ("train.csv", ["text,label"] + rows)):
        with open(f"{folder}/{name}", "w") as f:
            f.write("\n".join(lines) + "\n")
