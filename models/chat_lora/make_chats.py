"""Makes conversations of questions about a text from JSON files in SQuAD's format.

A conversation begins with a paragraph and a question about it; further turns are further questions about the same
paragraph. The answers are the words of the paragraph that people marked.
"""

import argparse
import json
from pathlib import Path

SYSTEM = "Answer from the text, in as few words as possible."


def questions(paragraph):
    """Returns (question, answer) pairs for a paragraph, with the first answer of each; omits questions without
    answer."""
    return [(q["question"].strip(), q["answers"][0]["text"].strip()) for q in paragraph["qas"] if q.get("answers")]


def conversations(file, turns, longest):
    """Returns lists of messages, one list for every `turns` questions about a paragraph. Paragraphs of more than
    `longest` characters are left out."""
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            asked = questions(paragraph)
            if len(paragraph["context"]) > longest:
                continue
            for at in range(0, len(asked), turns):
                messages = [{"role": "system", "content": SYSTEM}]
                for i, (question, answer) in enumerate(asked[at : at + turns]):
                    text = question if i else paragraph["context"].strip() + "\n\n" + question
                    messages.append({"role": "user", "content": text})
                    messages.append({"role": "assistant", "content": answer})
                yield messages


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="a JSON file in SQuAD's format")
    parser.add_argument("out", type=Path, help="a JSONL file with the column messages")
    parser.add_argument("--turns", type=int, default=2, help="questions of a conversation")
    parser.add_argument("--limit", type=int, default=0, help="number of conversations; 0: all")
    parser.add_argument("--longest", type=int, default=1000, help="characters of a paragraph; longer ones are left out")
    args = parser.parse_args()
    rows = list(conversations(args.source, args.turns, args.longest))
    rows = rows[: args.limit] if args.limit else rows
    lines = [json.dumps({"messages": row}, ensure_ascii=False) + "\n" for row in rows]
    args.out.write_text("".join(lines), encoding="utf-8")
    print(f"{args.out}: {len(rows)} conversations")


if __name__ == "__main__":
    main()
