"""Asks the first question of held-out conversations, before and after training, by the verb `generate`.

Prints both answers of each question, and how many are exactly the marked words (after SQuAD's normalization: lower case,
without articles and punctuation). Writes them to held_out_answers.json of the run's folder.
"""

import argparse
import json
import re
import string
import subprocess
from pathlib import Path


def normalized(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def answers(program, model, prompts, more):
    command = [program, "generate", model, "--chat", "--json", "--quiet", "--max_new_tokens", "32", *more]
    for prompt in prompts:
        command += ["--prompt", json.dumps(prompt, ensure_ascii=False)]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return [json.loads(line)["answer"].strip() for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, help="the model before training")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run, whose adapter is applied")
    parser.add_argument("--chats", type=Path, required=True, help="held-out conversations: JSONL with the column messages")
    parser.add_argument("--count", type=int, default=20, help="number of questions")
    args = parser.parse_args()
    chats = [json.loads(line)["messages"] for line in args.chats.read_text(encoding="utf-8").splitlines()][: args.count]
    prompts = [chat[:2] for chat in chats]
    before = answers(args.program, args.folder, prompts, [])
    after = answers(args.program, args.folder, prompts, ["--adapter", args.run])
    rows, right = [], [0, 0]
    for chat, *given in zip(chats, before, after, strict=True):
        question, wanted = chat[1]["content"].rsplit("\n\n", 1)[1], chat[2]["content"]
        for i, text in enumerate(given):
            right[i] += normalized(text) == normalized(wanted)
        rows.append({"question": question, "marked": wanted, "before": given[0], "after": given[1]})
        print(f"{question}\n  marked: {wanted}\n  before: {given[0]}\n  after:  {given[1]}")
    print(f"exactly the marked words: {right[0]} of {len(rows)} before, {right[1]} of {len(rows)} after")
    report = {"exact_before": right[0], "exact_after": right[1], "questions": len(rows), "answers": rows}
    (args.run / "held_out_answers.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
