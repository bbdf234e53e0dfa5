"""Fine-tunes a tiny network on made-up images, first with batches from memory and then as a job, and draws the losses.

  python example.py lenet.onnx

The model takes images of 1 x 28 x 28 and gives ten logits. The picture needs Matplotlib; without it the losses are
printed."""

import json
import pathlib
import shutil
import sys

import numpy as np
import onnx_amp

# %% Data: each class is a bright row of the image, with noise.
draw = np.random.default_rng(0)
labels = draw.integers(0, 10, 640)
images = draw.normal(0, 0.5, (640, 1, 28, 28)).astype(np.float32)
images[np.arange(640), 0, labels * 2 + 4] += 1
folder = pathlib.Path("example_run")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir()

# %% Training from memory: one step per batch of 32.
model = sys.argv[1]
losses = []
with onnx_amp.Session(model, loss="cross_entropy", lr=1e-3, max_steps=100) as session:
    name = session.inputs[0].name
    for i in range(100):
        rows = slice(i % 20 * 32, i % 20 * 32 + 32)
        losses.append(session.train_step({name: images[rows], "label": labels[rows]}).loss)
    session.eval_step({name: images, "label": labels})
    print("from memory:", session.eval_finish())
    session.export(folder / "from_memory.onnx")

# %% A job with the same data. It writes metrics.jsonl, a report and checkpoints.
np.savez(folder / "data.npz", **{name: images, "label": labels})
onnx_amp.train(model, train=folder / "data.npz", loss="cross_entropy", lr=1e-3, batch_size=32, max_steps=100,
               output_dir=folder / "job", logging_steps=1)
rows = [json.loads(line) for line in open(folder / "job/metrics.jsonl")]
logged = [r for r in rows if "loss" in r]

# %% Picture of both loss curves.
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("losses from memory:", np.round(losses[::10], 3))
    print("losses of the job: ", np.round([r["loss"] for r in logged][::10], 3))
else:
    plt.plot(range(1, 101), losses, label="from memory")
    plt.plot([r["step"] for r in logged], [r["loss"] for r in logged], label="job")
    plt.xlabel("step"), plt.ylabel("loss"), plt.legend()
    plt.savefig(folder / "losses.png", dpi=100)
    print("drawn:", folder / "losses.png")
