#!/usr/bin/env python3
"""Tests the Python package of the C library: the same bytes as from the command line, arrays in and out, exceptions.

  tests/python/test.py --program PROGRAM --library LIBRARY

Skipped (exit status 4) if no Python on this machine has NumPy, which the package needs."""

import argparse
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENET = ROOT / "tests/data/zoo/lenet_relu_dyn18/model.onnx"
BERT = ROOT / "tests/data/zoo/bert_cls_eager_ts14/model.onnx"
MINILM = ROOT / "tests/data/zoo/minilm_embed_ts14/model.onnx"


def find_numpy():
    """Restarts the test in Debian's Python if this one lacks NumPy."""
    try:
        import numpy  # noqa: F401
        return
    except ImportError:
        pass
    debian = "/usr/bin/python3"
    if sys.executable != debian and os.path.exists(debian) and "ONNX_AMP_PYTHON_TRIED" not in os.environ:
        os.environ["ONNX_AMP_PYTHON_TRIED"] = "1"
        os.execv(debian, [debian, *sys.argv])
    print("skipped: there is no NumPy")
    sys.exit(4)


find_numpy()
import numpy as np  # noqa: E402

STEPS, MICRO, ROWS = 4, 2, 4
SETTINGS = dict(loss="cross_entropy", lr=0.01, optimizer="adamw", max_steps=STEPS, batch_size=ROWS, gradient_accumulation_steps=MICRO)


class PackageTest(unittest.TestCase):
    program = ""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())
                                   if hasattr(self, "enterContext") else tempfile.mkdtemp())
        draw = np.random.default_rng(5)
        n = STEPS * MICRO * ROWS
        with onnx_amp.Session(LENET, **SETTINGS) as s:
            (name, dtype, shape), = s.inputs
        self.assertEqual(dtype, "float32")
        self.data = {name: draw.standard_normal((n, *shape[1:])).astype(np.float32), "label": draw.integers(0, 10, n)}
        np.savez(self.folder / "data.npz", **self.data)

    def batches(self, step):
        first = step * MICRO * ROWS
        return [{k: v[first + m * ROWS:first + (m + 1) * ROWS] for k, v in self.data.items()} for m in range(MICRO)]

    def command_line(self, output, model=LENET, settings=SETTINGS):
        arguments = [a for k, v in settings.items() for a in ("--" + k, str(v).lower())]
        subprocess.run([self.program, model, "--train", self.folder / "data.npz", "--shuffle", "false", "--group_by_length", "false",
                        *arguments, "--quiet", "--output_dir", output], check=True)  # fmt: skip
        return (output / "model.onnx").read_bytes()

    def test_session_and_job_have_the_bytes_of_the_command_line(self):
        expected = self.command_line(self.folder / "cli")
        with onnx_amp.Session(LENET, **SETTINGS) as s:
            losses = [s.train_step(self.batches(i)).loss for i in range(STEPS // 2)]
            state = s.save_state(self.folder / "state")
            losses += [s.train_step(self.batches(i)).loss for i in range(STEPS // 2, STEPS)]
            s.export(self.folder / "fed.onnx")
        self.assertEqual((self.folder / "fed.onnx").read_bytes(), expected)
        self.assertEqual(len(set(losses)), STEPS)
        with onnx_amp.Session(LENET, **SETTINGS) as s:
            s.prepare(self.batches(0)[0])
            s.load_state(state)
            again = [s.train_step(self.batches(i)).loss for i in range(STEPS // 2, STEPS)]
        self.assertEqual(again, losses[STEPS // 2:])
        steps = []
        result = onnx_amp.train(LENET, train=self.folder / "data.npz", shuffle=False, output_dir=self.folder / "job",
                                progress=lambda p: steps.append(p["step"]), **SETTINGS)
        self.assertEqual((self.folder / "job/model.onnx").read_bytes(), expected)
        self.assertEqual(steps[-1], STEPS)
        self.assertEqual(result["steps"], STEPS)
        self.assertFalse(result["stopped"])

    def test_minilm_has_the_bytes_of_the_command_line(self):
        settings = dict(SETTINGS, lr=1e-3, use_fp16=True, head="classification", num_labels=2)
        draw = np.random.default_rng(7)
        n = STEPS * MICRO * ROWS
        self.data = dict(input_ids=draw.integers(1, 60, (n, 12)), attention_mask=np.ones((n, 12), np.int64),
                         token_type_ids=np.zeros((n, 12), np.int64), label=draw.integers(0, 2, n))  # fmt: skip
        np.savez(self.folder / "data.npz", **self.data)
        expected = self.command_line(self.folder / "cli", MINILM, settings)
        with onnx_amp.Session(MINILM, **settings) as s:
            for step in range(STEPS):
                s.train_step(self.batches(step))
            s.export(self.folder / "fed.onnx")
        trained = (self.folder / "fed.onnx").read_bytes()
        self.assertEqual(trained, expected)
        self.assertNotEqual(trained, MINILM.read_bytes())

    def test_arrays_in_and_out(self):
        with onnx_amp.Session(LENET, **SETTINGS) as s:
            batch = self.batches(0)[0]
            s.prepare(batch)
            info = next(p for p in s.parameters() if p.trained and len(p.shape) > 1)
            values = s.parameter(info.name)
            self.assertEqual(values.shape, info.shape)
            s.set_parameter(info.name, values * 2)
            np.testing.assert_array_equal(s.parameter(info.name), values * 2)
            with self.assertRaises(ValueError):
                s.set_parameter(info.name, values.ravel())
            with self.assertRaises(KeyError):
                s.parameter("no such parameter")
            loss = s.eval_step(batch)
            logits, = s.outputs().values()
            # The library's loss equals the loss that NumPy computes from the library's outputs.
            shifted = logits - logits.max(1, keepdims=True)
            log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
            self.assertAlmostEqual(loss, -log_p[np.arange(ROWS), batch["label"]].mean(), places=5)
            metrics = s.eval_finish()
            self.assertEqual(metrics["samples"], ROWS)
            self.assertEqual(metrics["accuracy"], (logits.argmax(1) == batch["label"]).mean())
            s.lr = 0.5
            self.assertAlmostEqual(s.lr, 0.5)
            other_types = {k: np.asfortranarray(v.astype(np.float64) if v.dtype == np.float32 else v.astype(np.int32))
                           for k, v in batch.items()}
            self.assertEqual(s.eval_step(other_types), loss)

    def test_errors(self):
        with self.assertRaises(onnx_amp.OnnxAmpError) as caught:
            onnx_amp.Session(self.folder / "none.onnx")
        self.assertEqual((caught.exception.status, caught.exception.id), (2, "E_MODEL_OPEN"))
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).id, "E_MODEL_OPEN")
        with self.assertRaises(onnx_amp.OnnxAmpError) as caught:
            onnx_amp.Session(LENET, no_such_setting=1)
        self.assertEqual(caught.exception.status, 2)
        s = onnx_amp.Session(LENET, **SETTINGS)
        with self.assertRaises(onnx_amp.OnnxAmpError) as caught:
            s.train_step({"label": np.zeros(2, np.int64)})
        self.assertEqual(caught.exception.status, 5)
        with self.assertRaises(TypeError):
            s.train_step({"label": np.array(["text"])})
        s.close()
        s.close()
        with self.assertRaises(ValueError):
            s.eval_finish()

    def test_callbacks_stop_a_job(self):
        def stop():
            raise KeyboardInterrupt

        job = dict(train=self.folder / "data.npz", shuffle=False, output_dir=self.folder / "job", **SETTINGS)
        with self.assertRaises(KeyboardInterrupt):
            onnx_amp.train(LENET, stop=stop, **job)
        result = onnx_amp.train(LENET, resume="auto", **job)
        self.assertEqual(result["steps"], STEPS)
        self.assertEqual((self.folder / "job/model.onnx").read_bytes(), self.command_line(self.folder / "cli"))

    def test_texts(self):
        vocabulary = self.folder / "vocab.txt"
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "day"]
        vocabulary.write_text("\n".join(words) + "\n")
        with onnx_amp.Session(BERT, vocab=vocabulary, pad_to_multiple=1, max_steps=1, loss="cross_entropy") as s:
            batch = s.encode(["good day", "bad"])
        np.testing.assert_array_equal(batch["input_ids"], [[2, 5, 7, 3], [2, 6, 3, 0]])
        np.testing.assert_array_equal(batch["attention_mask"], [[1, 1, 1, 1], [1, 1, 1, 0]])

    def test_texts_train_as_the_command_line(self):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fair", "day", "film"]
        (self.folder / "vocab.txt").write_text("\n".join(words) + "\n")
        draw = np.random.default_rng(3)
        labels = draw.integers(0, 3, STEPS * MICRO * ROWS)
        texts = [" ".join([words[5 + k], *draw.choice(words[8:], draw.integers(1, 6))]) for k in labels]
        rows = "".join(f"{t},{k}\n" for t, k in zip(texts, labels))
        (self.folder / "texts.csv").write_text("text,label\n" + rows)
        settings = dict(SETTINGS, use_bf16=True)
        arguments = [a for k, v in settings.items() for a in ("--" + k, str(v).lower())]
        subprocess.run([self.program, BERT, "--train", self.folder / "texts.csv", "--text_columns", "text", "--label_column", "label",
                        "--vocab", self.folder / "vocab.txt", "--shuffle", "false", "--group_by_length", "false", *arguments, "--quiet",
                        "--save_steps", "2", "--output_dir", self.folder / "cli"], check=True)  # fmt: skip
        trained = (self.folder / "cli/model.onnx").read_bytes()

        def batches(s, step):
            for m in range(MICRO):
                part = slice((step * MICRO + m) * ROWS, (step * MICRO + m + 1) * ROWS)
                yield dict(s.encode(texts[part]), label=labels[part])

        def require_the_bytes(s):
            changed = [p.name for p in s.parameters() if p.trained]
            self.assertGreater(len(changed), 10)
            for name in changed:
                self.assertIn(s.parameter(name).tobytes(), trained, name)

        vocabulary = self.folder / "vocab.txt"
        with onnx_amp.Session(BERT, vocab=vocabulary, **settings) as s:
            for step in range(STEPS):
                s.train_step(list(batches(s, step)))
            require_the_bytes(s)
        with onnx_amp.Session(BERT, vocab=vocabulary, **settings) as s:  # continues the run that the command line began
            s.prepare(next(batches(s, 0)))
            s.load_state(self.folder / "cli/checkpoints/checkpoint-2")
            for step in range(2, STEPS):
                s.train_step(list(batches(s, step)))
            require_the_bytes(s)

    def test_the_command_line_continues_a_session(self):
        with onnx_amp.Session(LENET, **SETTINGS) as s:
            for step in range(STEPS // 2):
                s.train_step(self.batches(step))
            state = s.save_state(self.folder / "state")
        settings = [a for k, v in SETTINGS.items() for a in ("--" + k, str(v))]
        subprocess.run([self.program, LENET, "--train", self.folder / "data.npz", "--shuffle", "false", *settings, "--quiet", "--resume", state,
                        "--output_dir", self.folder / "continued"], check=True)  # fmt: skip
        self.assertEqual((self.folder / "continued/model.onnx").read_bytes(), self.command_line(self.folder / "cli"))
        # With a smaller data set, the position in the epochs is computed from the number of steps.
        np.savez(self.folder / "few.npz", **{k: v[:MICRO * ROWS + 1] for k, v in self.data.items()})
        done = subprocess.run([self.program, LENET, "--train", self.folder / "few.npz", *settings, "--resume", state,
                               "--output_dir", self.folder / "few"], capture_output=True, text=True, check=True)  # fmt: skip
        self.assertIn("goes on after step 2 of its own order of data", done.stderr)
        # A run with other settings cannot continue from the checkpoint.
        done = subprocess.run([self.program, LENET, "--train", self.folder / "data.npz", *settings, "--lr", "0.5", "--resume", state,
                               "--output_dir", self.folder / "other"], capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 6)
        self.assertIn("lr was 0.01, is 0.5", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", dest="c_interface", required=True)
    flags, rest = parser.parse_known_args()
    os.environ["ONNX_AMP_LIBRARY"] = flags.c_interface
    sys.path.insert(0, str(ROOT / "python"))
    sys.dont_write_bytecode = True
    import onnx_amp
    PackageTest.program = flags.program
    unittest.main(argv=[sys.argv[0], *rest])
