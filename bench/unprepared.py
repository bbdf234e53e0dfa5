"""Tests models without preparation: tiny random configurations of many architectures, which both of PyTorch's exporters
export and the program trains. Compares with PyTorch which tensors are weights, the loss, every gradient and ten steps.
README.md describes the method; docs/unprepared.md is the output of `report`.

    unprepared.py build --corpus FOLDER      # exports and references; existing entries are kept
    unprepared.py compare --corpus FOLDER    # the program on every entry: FOLDER/compared.json
    unprepared.py report --corpus FOLDER --out docs/unprepared.md
"""

import argparse
import json
from pathlib import Path


def entries(corpus):
    """Returns the states of all attempted exports, by folder name."""
    return {f.parent.name: json.loads(f.read_text()) for f in sorted(corpus.glob("*/status.json"))}


def write_index(corpus):
    found = entries(corpus)
    text = json.dumps([{"folder": k, **v} for k, v in found.items()], indent=1)
    aside = corpus / "index.json.partial"
    aside.write_text(text)
    aside.rename(corpus / "index.json")


def build(args):
    import unprepared_build
    import unprepared_models

    known = sorted(unprepared_models.load_tables(), key=unprepared_build.hashed)
    args.corpus.mkdir(parents=True, exist_ok=True)
    unprepared_build.build_all(args.only or known, args.corpus, args.seconds, args.exporters, args.again, lambda: write_index(args.corpus))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("build", "compare", "report"))
    parser.add_argument("--corpus", required=True, type=Path, help="folder of entries; made by build")
    parser.add_argument("--only", nargs="*", help="names of architectures (build) or folders (compare)")
    parser.add_argument("--seconds", type=int, default=90, help="for each export")
    parser.add_argument("--exporters", nargs="*", default=["ts", "dyn"], help="TorchScript's (ts, quick) or dynamo's (dyn)")
    parser.add_argument("--again", action="store_true", help="do not keep what is there")
    parser.add_argument("--binary", help="the program (build/onnx-amp-finetune)")
    parser.add_argument("--out", type=Path, help="Markdown file of report; the standard output if not given")
    args = parser.parse_args()
    if args.verb == "build":
        build(args)
    elif args.verb == "compare":
        import unprepared_compare

        unprepared_compare.main(args)
    else:
        import unprepared_report

        unprepared_report.main(args)


if __name__ == "__main__":
    main()
