"""Cases of the drill: a command, its expected end, the files that may remain, and commands that
follow the hint. This file has the cases of flags, models, data and the output folder.
"""

from drill import Case
from drill_limits import LIMITS
from drill_steps import NEW, ONE, RUN, copy, absent, images, long_run, run, text, without_graph, write

FLAGS = [
    Case("a flag that is none", run("--lrr", "1"), 2, "E_USAGE"),
    Case("a flag without its value", run("--lr"), 2, "E_USAGE"),
    Case("a value out of range", run("--lr", "-1"), 2, "E_USAGE"),
    Case("a word for a number", run("--batch_size", "many"), 2, "E_USAGE"),
    Case("no data", ["lenet.onnx", "--loss", "cross_entropy"], 2, "E_USAGE"),
    Case("two 16-bit types", run("--use_fp16", "--use_bf16"), 2, "E_USAGE"),
    Case("resume and overwrite", run("--resume", "auto", "--overwrite"), 2, "E_USAGE"),
    Case("a gate without validation data", run("--require", "accuracy>=0.9"), 2, "E_USAGE"),
    Case("a loss that is none", run("--loss", "crossentropy"), 2),
    Case("a task that is none", run("--task", "FOO"), 2, "E_USAGE"),
    Case("an output that is none", run("--output", "nothing"), 2),
    Case("a configuration that is missing", run("--config", "none.json"), 2, "E_USAGE"),
    Case("a configuration that is no JSON", run("--config", "t.csv"), 2, "E_USAGE"),
    Case("a key that is none", run("--config", "c.json"), 2, "E_USAGE", setup=[write("c.json", '{"lrr": 1}')]),
    Case(
        "overwrite in a configuration",
        run("--config", "c.json"),
        2,
        "E_USAGE",
        setup=[write("c.json", '{"overwrite": true}')],
    ),
    Case("every parameter frozen", run("--freeze", "*"), 2, "E_NOTHING_TRAINS", then=[(ONE, 0)]),
    Case("export of a folder without a run", ["export", "{d}", "--out", "x.onnx"], 2, "E_RUN"),
]
MODELS = [
    Case("a model that is missing", images(model="none.onnx"), 2),
    Case("a folder for a model", images(model="{d}"), 2),
    Case("an empty model", images(model="empty.onnx"), 3),
    Case("a model cut short", images(model="cut.onnx"), 3),
    Case("a table for a model", images(model="t.csv"), 3),
    Case("an archive for a model", images(model="fake.onnx"), 3, setup=[without_graph]),
    Case("a teacher that is missing", run("--teacher", "none.onnx", "--loss", "distill"), 2),
]
DATA = [
    Case("training data that are missing", images("--output_dir", "run", data="none.safetensors"), 5),
    Case("validation data that are missing", run("--val", "none.safetensors"), 5),
    Case("a folder for data", images("--output_dir", "run", data="{d}"), [2, 5]),
    Case("an empty table", text(data="empty.csv"), 5),
    Case("a header without rows", text(data="h.csv"), 5, setup=[write("h.csv", "text,sentiment\n")]),
    Case("a quote that is not closed", text(data="q.csv"), 5, setup=[write("q.csv", 'text,sentiment\n"a film,pos\n')]),
    Case("a row of other width", text(data="w.csv"), 5, setup=[write("w.csv", "text,sentiment\na,pos\na,b,c,neg\n")]),
    Case("a column that is none", text("--text_columns", "txt"), 5),
    Case("a label column that is none", text("--label_column", "label"), 5),
    Case("a label that training has not", text("--val", "v.csv"), 5, setup=[write("v.csv", "text,sentiment\na,odd\n")]),
    Case("a table that is not UTF-8", text(data="u.csv"), 5, setup=[write("u.csv", b"text,sentiment\n\xff\xfe,pos\n")]),
    Case(
        "text without a vocabulary",
        ["bert.onnx", "--train", "t.csv", "--text_columns", "text", "--label_column", "sentiment", "--num_labels", "3"],
        2,
        setup=[lambda folder: (folder / "vocab.txt").unlink()],  # otherwise the program finds the one next to the model
    ),
    Case("a vocabulary that is missing", text("--vocab", "none.txt"), [2, 5]),
    Case("tensors cut short", images("--output_dir", "run", data="t.safetensors"), 5),
    Case("labels out of range", images("--output_dir", "run", data="range.safetensors"), 5),
    Case(
        "data that are not numbers",
        images(
            "--output_dir",
            "run",
            "--epochs",
            "30",
            "--max_consecutive_skips",
            "5",
            "--use_fp16",
            data="nan.safetensors",
        ),
        [5, 8],
        leaves=RUN,
    ),
]
FOLDERS = [
    Case("a file for the output folder", run("--output_dir", "t.csv"), 7, "E_WRITE"),
    Case("an output folder under a file", run("--output_dir", "t.csv/run"), 7, "E_WRITE"),
    Case(
        "a folder that holds a run",
        ONE,
        2,
        "E_OUTPUT_EXISTS",
        setup=[ONE],
        then=[(run("--max_steps", "2", "--resume", "auto"), 0), (run("--max_steps", "2", "--overwrite"), 0)],
    ),
    Case(
        "the configuration of a finished run",
        ["--config", "run/run.json"],
        2,
        "E_OUTPUT_EXISTS",
        setup=[run("--max_steps", "2", "--overwrite")],
    ),
    Case(
        "a folder with one's own model",
        run("--output_dir", "own"),
        2,
        "E_OUTPUT_FOREIGN",
        setup=[copy("lenet.onnx", "own/model.onnx")],
        then=[(run("--max_steps", "1", "--output_dir", "other"), 0)],
    ),
    Case(
        "--overwrite over one's own model",
        run("--output_dir", "own", "--overwrite"),
        2,
        "E_OUTPUT_FOREIGN",
        setup=[copy("lenet.onnx", "own/model.onnx")],
    ),
    Case(
        "--overwrite over the model that is trained",
        images("--output_dir", "run", "--overwrite", model="run/model.onnx"),
        2,
        "E_OUTPUT_INPUT",
        setup=[ONE],
    ),
    Case(
        "--overwrite where the user's plan lies",
        run("--overwrite", "--precision_plan", "run/precision_plan.json"),
        2,
        "E_OUTPUT_INPUT",
        setup=[ONE],
    ),
    Case("--overwrite with a mistake in the data", run("--overwrite", "--val", "none.safetensors"), 5, setup=[ONE]),
    Case(
        "--overwrite with a run that diverges",
        run(
            "--overwrite", "--use_fp16", "--inject_overflow", "0-9", "--max_steps", "9", "--max_consecutive_skips", "3"
        ),
        8,
        "E_DIVERGED",
        setup=[ONE],
        leaves=NEW,
        then=[(run("--overwrite", "--max_steps", "1"), 0), absent("run/.new-run")],
    ),
    Case(
        "divergence on text without padding",
        text("--output_dir", "run", "--use_fp16", "--inject_overflow", "0-6", "--max_consecutive_skips", "3"),
        8,
        "E_DIVERGED",
        leaves=RUN,
    ),
    Case(
        "a second run in the same folder", long_run(), 11, "E_LOCKED", leaves=RUN, how={"hold": long_run()}, quick=False
    ),
    Case("results into a folder that is missing", ["export", "lenet.onnx", "--out", "none/x.onnx"], 7, "E_WRITE"),
    Case("a plan into a folder that is missing", ["plan", "lenet.onnx", "--out", "none/plan.json"], 7, "E_WRITE"),
    Case(
        "gradients into a folder that is missing",
        ["grad", "lenet.onnx", "--inputs", "few.safetensors", "--loss", "cross_entropy", "--out", "none/g.safetensors"],
        7,
        "E_WRITE",
    ),
]
CASES = FLAGS + MODELS + DATA + FOLDERS + LIMITS
assert len({c.name for c in CASES}) == len(CASES)
