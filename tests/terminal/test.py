#!/usr/bin/env python3
"""Runs the program in a pseudo terminal and checks the screen: the line of progress while data are read, tokenized and
evaluated, Ctrl-C in the middle of it, colors, and errors.

  tests/terminal/test.py --program PROGRAM

Needs only Python's standard library."""
import argparse
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/surroundings"))
from test import TRAIN, write_data  # noqa: E402

MODEL = ROOT / "tests/data/zoo/lenet_relu_dyn18/model.onnx"
CONTROL = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
SECONDS = 240  # seconds after which a program counts as stuck
ROWS = 150_000


class Screen:
    """The content of a terminal of `width` columns: text, carriage return, line feed, and the control sequences K, J, A, m."""

    def __init__(self, width):
        self.width, self.rows, self.row, self.column = width, [""], 0, 0
        self.wrapped, self.lines, self.colored = 0, [], []  # lines: texts of the last row before each \r or erasure

    def feed(self, text):
        while text:
            match = CONTROL.match(text)
            if match:
                self.control(match[1], match[2])
                text = text[match.end():]
                continue
            c, text = text[0], text[1:]
            if c == "\r":
                self.keep()
                self.column = 0
            elif c == "\n":
                self.row += 1
                while len(self.rows) <= self.row:
                    self.rows.append("")
            else:
                if self.column == self.width:
                    self.wrapped += 1
                    self.column = 0
                    self.feed("\n")
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[:self.column] + c + line[self.column + 1:]
                self.column += 1

    def keep(self):
        if self.rows[self.row]:
            self.lines.append(self.rows[self.row])

    def control(self, numbers, letter):
        self.keep()
        if letter == "K":
            self.rows[self.row] = self.rows[self.row][:self.column]
        elif letter == "J":
            self.rows[self.row:] = [self.rows[self.row][:self.column]]
        elif letter == "A":
            self.row -= int(numbers or 1)
        elif letter == "m":
            self.colored.append(numbers)
        else:
            raise AssertionError(f"unknown control sequence {numbers}{letter}")

    def text(self):
        return "\n".join(self.rows)


class Terminal:
    """The program in a pseudo terminal, which is its standard input, output and error."""

    def __init__(self, words, folder, width=80, env=None):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "LC_ALL": "C.UTF-8", "ONNX_AMP_THREADS": "1"} | (env or {})
        # The terminal controls the session, so that it sends SIGINT for Ctrl-C.
        self.process = subprocess.Popen([str(w) for w in words], cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env=environment)  # fmt: skip
        os.close(slave)
        self.master, self.output, self.screen, self.times = master, "", Screen(width), []

    def read(self):
        """Reads for a moment. Returns whether the program still has the terminal."""
        if not select.select([self.master], [], [], 0.05)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # the last process has closed it
            return False
        self.output += piece
        self.screen.feed(piece)
        self.times.append(time.monotonic())
        return bool(piece)

    def until(self, text):
        """Reads until the screen has shown the text."""
        end = time.monotonic() + SECONDS
        while text not in self.output:
            if not self.read() or time.monotonic() > end:
                raise AssertionError(f"'{text}' was not shown: {self.output!r}")

    def key(self, key):
        os.write(self.master, key.encode())

    def finish(self):
        end = time.monotonic() + SECONDS
        while self.read():
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"the program does not end: {self.output!r}")
        code = self.process.wait(timeout=SECONDS)
        os.close(self.master)
        return code


class TerminalTest(unittest.TestCase):
    program = ""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.work.name)
        write_data(cls.folder / "data.safetensors")
        shutil.copy(MODEL, cls.folder / "model.onnx")
        shutil.copytree(ROOT / "tests/data/sentences/bert", cls.folder / "bert")
        words = (cls.folder / "bert/vocab.txt").read_text().split()[5:]
        with open(cls.folder / "long_name_of_a_table_with_many_rows.csv", "w") as table:
            table.write("text\n")
            for i in range(ROWS):
                table.write(" ".join(words[(i * j) % len(words)] for j in range(1, 9)) + "\n")
        cls.table = ["predict", "bert/model.onnx", "--inputs", "long_name_of_a_table_with_many_rows.csv", "--text_columns", "text", "--vocab",
                     "bert/vocab.txt", "--task", "retrieval", "--out", "out.npz"]  # fmt: skip
        encoder = ["convert", "bert", "--model_head", "none", "--out", "bert/model.onnx"]
        subprocess.run([cls.program, *encoder], cwd=cls.folder, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def run_in(self, words, **how):
        terminal = Terminal([self.program, *words], self.folder, **how)
        return terminal.finish(), terminal

    def test_progress_fits_and_is_erased(self):
        for width in (80, 40, 24):
            with self.subTest(width=width):
                code, terminal = self.run_in(self.table, width=width)
                screen = terminal.screen
                self.assertEqual(code, 0, terminal.output)
                drawn = [line for line in screen.lines if line.startswith(("tokenizing", "predicting", "reading"))]
                self.assertTrue(any(line.startswith("predicting") for line in drawn), terminal.output)
                self.assertTrue(all(len(line) < width - 2 for line in drawn), drawn)
                self.assertTrue(all(re.search(r"\d+%", line) for line in drawn if line.startswith("predicting")), drawn)
                for word in ("tokenizing", "predicting", "reading"):
                    self.assertNotIn(word, screen.text())
                self.assertIn('"rows":', screen.text().replace("\n", ""))
                drawings = re.findall(r"\r\x1b\[K(?=predicting)", terminal.output)
                self.assertLessEqual(len(drawings), 6 * (terminal.times[-1] - terminal.times[0]) + 2)

    def test_quiet_has_no_progress(self):
        code, terminal = self.run_in([*self.table, "--quiet"])
        self.assertEqual(code, 0, terminal.output)
        self.assertNotRegex(terminal.output, "\r\x1b|predicting|tokenizing|reading")

    def test_pipes_and_dumb_terminals_have_no_control_sequences(self):
        done = subprocess.run([self.program, *self.table], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr + done.stdout, "[\r\x1b]|predicting|tokenizing")
        code, terminal = self.run_in(self.table, env={"TERM": "dumb"})
        self.assertEqual(code, 0, terminal.output)
        self.assertNotRegex(terminal.output, "\x1b|predicting|tokenizing")

    def test_ctrl_c_while_rows_are_predicted(self):
        for width in (80, 40):
            terminal = Terminal([self.program, *self.table], self.folder, width=width)
            terminal.until("predicting")
            terminal.key("\x03")
            self.assertEqual(terminal.finish(), 130, terminal.output)
            rows = [row for row in terminal.screen.rows if row]
            at = next(i for i, row in enumerate(rows) if row.startswith("error: stopped by SIGINT"))
            self.assertFalse([row for row in rows if "predicting" in row or "^C" in row], rows)
            self.assertTrue(rows[at + 1].startswith("  hint:") or width < 60, rows)
            self.assertEqual(terminal.screen.rows[-1], "")  # the shell's prompt begins a line
            self.assertNotIn('{"id"', terminal.output)

    def test_ctrl_c_in_training(self):
        steps = TRAIN.index("--max_steps")
        words = [*TRAIN[:steps], "--max_steps", "1000000", *TRAIN[steps + 2:], "--overwrite"]
        terminal = Terminal([self.program, "model.onnx", *words], self.folder, width=80)
        terminal.until("samples/s")
        terminal.key("\x03")
        self.assertEqual(terminal.finish(), 75, terminal.output)
        text = terminal.screen.text()
        self.assertEqual(text.count("error:"), 1, text)
        self.assertIn("continue with --resume auto", text)
        self.assertNotIn('{"id"', text)
        self.assertEqual(terminal.screen.rows[-1], "")

    def test_colors(self):
        missing = ["check", "none.onnx"]
        code, terminal = self.run_in(missing)
        self.assertNotEqual(code, 0)
        self.assertIn("\x1b[1;31merror:\x1b[0m cannot open", terminal.output)
        self.assertRegex(terminal.output, "explain \x1b\\[1;31mE_[A-Z_]+\x1b\\[0m")
        self.assertEqual(terminal.output.count("cannot open"), 1)
        warned = ["model.onnx", *TRAIN, "--overwrite", "--eval_group_by", "file"]
        for words, colored in ((missing, "error:"), (warned, "error:")):
            for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
                code, terminal = self.run_in(words, env=env)
                self.assertNotIn("\x1b[1;31m", terminal.output)
                self.assertNotIn("\x1b[33m", terminal.output)
                self.assertIn(colored, terminal.output)
        # An empty NO_COLOR has no effect (https://no-color.org).
        code, terminal = self.run_in(missing, env={"NO_COLOR": ""})
        self.assertIn("\x1b[1;31m", terminal.output)
        done = subprocess.run([self.program, *missing], cwd=self.folder, capture_output=True, text=True)
        self.assertNotIn("\x1b", done.stderr)
        self.assertIn('{"id":"', done.stderr)

    def test_warnings_and_notes_are_colored(self):
        code, terminal = self.run_in(["generate", "none.onnx", "--prompt", "a", "--top_p", "0.5"])
        self.assertNotEqual(code, 0)
        self.assertIn("\x1b[33mwarning:\x1b[0m --top_p has no effect", terminal.output)

    def test_activities_of_models(self):
        plan = ["plan", "model.onnx", "--use_bf16", "--calibrate", "data.safetensors", "--loss", "cross_entropy"]
        for words, shown in ((["check", "model.onnx"], "reading model.onnx"), (["bench", "model.onnx"], "timing 20 steps"),
                             (plan, "measuring precision plans")):  # fmt: skip
            code, terminal = self.run_in(words)
            self.assertEqual(code, 0, terminal.output)
            self.assertIn(shown, terminal.output)
            self.assertNotIn(shown, terminal.screen.text())

    def test_a_file_that_shrinks_while_it_is_read(self):
        table = self.folder / "shrinks.csv"
        header, *rows = (self.folder / "long_name_of_a_table_with_many_rows.csv").read_text().splitlines(keepends=True)
        table.write_text(header + "".join(rows) * 12)  # so many that a fast machine, too, shows how it tokenizes them
        words = [str(table) if w.endswith("many_rows.csv") else w for w in self.table]
        terminal = Terminal([self.program, *words, "--in_memory_max_size", "100000"], self.folder)
        terminal.until("tokenizing")
        os.truncate(table, 0)
        self.assertEqual(terminal.finish(), 5, terminal.output)
        self.assertIn("\x1b[1;31merror:\x1b[0m a file of data became shorter", terminal.output)
        self.assertNotIn("tokenizing", terminal.screen.text())
        self.assertNotIn('{"id"', terminal.output)

    def messages(self, words, **env):
        """Runs the program with its standard error in a pipe. Returns the exit code and the lines."""
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, env=os.environ | env)
        return done.returncode, done.stderr.splitlines()

    def test_log_format_json_writes_only_lines_of_json(self):
        json_lines = ["--log_format", "json"]
        train = ["model.onnx", *TRAIN, "--overwrite", "--logging_steps", "1", "--verbose"]
        (self.folder / "labels.csv").write_text("text,label\n" + "a,x\nb,y\n" * 8)
        check = ["bert/model.onnx", "--train", "labels.csv", "--vocab", "bert/vocab.txt", "--text_columns", "text", "--check_data"]
        (self.folder / "form.yaml").write_text("log_format: json\n")
        cases = [([*train, *json_lines], {}, 0), ([*check, *json_lines], {}, 0), (["check", "none.onnx", *json_lines], {}, 2),
                 (["check", "none.onnx"], {"ONNX_AMP_LOG_FORMAT": "json"}, 2), (["check", "none.onnx", "--config", "form.yaml"], {}, 2),
                 (["--log-format=json", "check", "none.onnx", "--unknown"], {}, 2),
                 (["generate", "none.onnx", "--prompt", "a", "--top_p", "0.5", *json_lines], {}, 2),
                 (["create", "lenet", "--out", "new.onnx", *json_lines], {}, 0)]  # fmt: skip
        for words, env, wanted in cases:
            with self.subTest(words=words):
                code, lines = self.messages(words, **env)
                self.assertEqual(code, wanted, lines)
                said = [json.loads(line) for line in lines]
                self.assertTrue(said and all(re.fullmatch("[A-Z][A-Z_]+", m["id"]) for m in said), lines)
                self.assertTrue(all("exit" in m or m["message"] for m in said), lines)
                self.assertEqual(wanted, said[-1].get("exit", 0))
                if wanted and "--top_p" in words:
                    self.assertEqual((said[0]["id"], said[0]["level"]), ("WARNING", "warning"))
        said = [json.loads(line) for line in self.messages([*train, *json_lines])[1]]
        self.assertEqual([m["step"] for m in said if m["id"] == "PROGRESS"], [1, 2, 3, 4])
        self.assertLessEqual({"DETAIL", "INFO"}, {m["id"] for m in said})
        code, terminal = self.run_in([*train, *json_lines])
        self.assertEqual(code, 0, terminal.output)
        self.assertNotIn("\x1b", terminal.output)

    def test_log_format_of_an_interrupted_run(self):
        steps = TRAIN.index("--max_steps")
        endless = [*TRAIN[:steps], "--max_steps", "1000000", *TRAIN[steps + 2:], "--overwrite", "--logging_steps", "1"]
        for form in ("json", "text"):
            process = subprocess.Popen([self.program, "model.onnx", *endless, "--log_format", form], cwd=self.folder, stderr=subprocess.PIPE,
                                       text=True)  # fmt: skip
            while "step 2/" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.terminate()
            lines = process.communicate(timeout=SECONDS)[1].splitlines()
            self.assertEqual(process.returncode, 75, lines)
            if form == "json":
                self.assertEqual(json.loads(lines[-1])["id"], "E_STOPPED")
                self.assertTrue(all(line.startswith('{"id":') for line in lines), lines)
            else:
                self.assertIn("  hint: continue with --resume auto", lines)
                self.assertFalse([line for line in lines if line.startswith("{")], lines)

    def test_log_format_text_writes_no_json(self):
        for words in (["check", "none.onnx"], ["check", "none.onnx", "--unknown"], ["create", "none", "--out", "x.onnx"]):
            code, lines = self.messages([*words, "--log_format", "text"])
            self.assertEqual((code > 0, sum(line.startswith("error: ") for line in lines)), (True, 1), lines)
            self.assertFalse([line for line in lines if line.startswith("{")], lines)
            self.assertRegex(lines[-1], "^  more: onnx-amp-finetune explain E_")
            code, lines = self.messages(words, ONNX_AMP_LOG_FORMAT="auto")
            self.assertEqual([line.startswith("{") for line in lines[-2:]], [False, True])
        code, lines = self.messages(["check", "none.onnx", "--log_format", "text"], ONNX_AMP_LOG_FORMAT="json")
        self.assertTrue(lines[0].startswith("error: "), lines)

    def test_log_format_of_a_sweep(self):
        for form, json_count in (("json", None), ("text", 0)):
            words = ["sweep", "model.onnx", *TRAIN[:-1], "sweep_" + form, "--sweep", "lr=0.1,0.2", "--val", "none.safetensors"]
            code, lines = self.messages([*words, "--log_format", form])
            self.assertNotEqual(code, 0)
            of_json = [line for line in lines if line.startswith("{")]
            self.assertEqual(len(of_json), len(lines) if json_count is None else 0, lines)
            self.assertTrue(lines)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True, type=lambda p: str(pathlib.Path(p).resolve()))
    given, rest = arguments.parse_known_args()
    TerminalTest.program = given.program
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print(f"terminal: skipped: no pseudo terminal can be opened (is /dev/pts mounted?): {error}")
        sys.exit(4)
    unittest.main(argv=[sys.argv[0], *rest])
