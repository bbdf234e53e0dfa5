"""The console command. It replaces this process by the program, so that signals and exit codes are the program's."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "onnx-amp-finetune"
    os.execv(program, [str(program), *sys.argv[1:]])
