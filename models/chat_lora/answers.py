"""Asks the first question of held-out conversations before and after training, with the verb `generate`.

Prints both answers to each question, and the F1 of the answers: how many words they share with the answers that people
marked, as in SQuAD (lower case, without articles and punctuation). Writes them to held_out_answers.json in the run's
folder.
"""

import argparse
import collections
import json
import re
import string
import subprocess
from pathlib import Path


def words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def f1(text, wanted):
    """Returns 2 c / (a + b) for texts of a and b words that have c words in common; 0 if a text has no words."""
    a, b = collections.Counter(words(text)), collections.Counter(words(wanted))
    return 2 * (a & b).total() / max(1, a.total() + b.total())


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
    parser.add_argument("--chats", type=Path, required=True, help="held-out conversations (make_chats.py)")
    parser.add_argument("--count", type=int, default=20, help="number of questions")
    args = parser.parse_args()
    lines = args.chats.read_text(encoding="utf-8").splitlines()[: args.count]
    chats = [json.loads(line)["messages"] for line in lines]
    prompts = [chat[:2] for chat in chats]
    before = answers(args.program, args.folder, prompts, [])
    after = answers(args.program, args.folder, prompts, ["--adapter", args.run])
    rows, scores = [], [0.0, 0.0]
    for chat, *given in zip(chats, before, after, strict=True):
        question, wanted = chat[1]["content"].rsplit("\n\n", 1)[1], chat[2]["content"]
        for i, text in enumerate(given):
            scores[i] += f1(text, wanted) / len(chats)
        rows.append({"question": question, "marked": wanted, "before": given[0], "after": given[1]})
        print(f"{question}\n  marked: {wanted}\n  before: {given[0]}\n  after:  {given[1]}")
    print(f"F1 of {len(rows)} answers: {scores[0]:.2f} before, {scores[1]:.2f} after")
    report = {"f1_before": scores[0], "f1_after": scores[1], "answers": rows}
    (args.run / "held_out_answers.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
