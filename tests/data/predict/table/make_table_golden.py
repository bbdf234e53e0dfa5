"""Makes a model of tables with an embedding for each category, and its expected predictions for new rows.

    make_table_golden.py onnx-amp-finetune       (packages torch, onnx, onnxruntime, pandas, scikit-learn, numpy)

start.onnx is PyTorch's export. model.onnx is start.onnx after a few steps of training by the program on
../../data/features/sales.csv. golden.json has, for every row of new.csv, onnxruntime's output of model.onnx for the features
of pandas and scikit-learn, in the target's own units (the program trains on log(1 + y)). The export with --export_raw_rows
must give the same outputs."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import pandas as pd
import torch
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "data", "features")
CATEGORICAL = ["Store", "State", "Promo", "Kind", "Month", "Dayofweek"]
CONTINUOUS = ["Temperature", "Visitors", "Distance", "Elapsed"]


def here(name):
    return os.path.join(HERE, name)


def read(name):
    t = pd.read_csv(os.path.join(DATA, name), parse_dates=["Date"]).merge(pd.read_csv(os.path.join(DATA, "store.csv")), on="Store", how="left")
    t["Month"], t["Dayofweek"] = t["Date"].dt.month, t["Date"].dt.day_of_week
    t["Elapsed"] = t["Date"].astype("datetime64[s]").astype(np.int64)
    return t


class Net(nn.Module):  # as fastai's TabularModel: embeddings of the categories, and the numbers
    def __init__(self, sizes, numbers):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(n, 3) for n in sizes])
        self.layers = nn.Sequential(nn.Linear(3 * len(sizes) + numbers, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x_cat, x_cont):
        x = [e(x_cat[:, i]) for i, e in enumerate(self.embeds)]
        return self.layers(torch.cat(x + [x_cont], 1))


torch.manual_seed(3)
train, new = read("sales.csv"), read("new.csv")
encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1).fit(train[CATEGORICAL])
imputer = SimpleImputer(strategy="median", add_indicator=True)
x = imputer.fit_transform(train[CONTINUOUS])
scaler = StandardScaler().fit(x[:, :4])
sizes = [int(s) + 2 for s in encoder.transform(train[CATEGORICAL]).max(0)]  # and one for code 0
torch.onnx.export(Net(sizes, x.shape[1]), (torch.zeros(2, len(sizes), dtype=torch.int64), torch.zeros(2, x.shape[1])), here("start.onnx"),
                  input_names=["x_cat", "x_cont"], output_names=["sales"], opset_version=17, dynamo=False,
                  dynamic_axes={n: {0: "batch"} for n in ["x_cat", "x_cont", "sales"]})
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([os.path.abspath(sys.argv[1]), here("start.onnx"), "--train", os.path.join(DATA, "sales.csv"), "--join", os.path.join(DATA, "store.csv") + ":Store",
                    "--date", "Date", "--categorical", ",".join(CATEGORICAL), "--continuous", ",".join(CONTINUOUS), "--target", "Sales",
                    "--target_transform", "log1p", "--max_steps", "30", "--lr", "0.02", "--output_dir", folder + "/run", "--device", "cpu"], check=True)
    with open(folder + "/run/model.onnx", "rb") as f, open(here("model.onnx"), "wb") as out:
        out.write(f.read())

y = imputer.transform(new[CONTINUOUS])
codes = (encoder.transform(new[CATEGORICAL]) + 1).astype(np.int64)
numbers = np.hstack([scaler.transform(y[:, :4]), y[:, 4:]]).astype(np.float32)
session = onnxruntime.InferenceSession(here("model.onnx"))
out = session.run(None, {"x_cat": codes, "x_cont": numbers})[0][:, 0]
with tempfile.TemporaryDirectory() as folder:  # onnxruntime gives the same predictions for raw rows
    subprocess.run([os.path.abspath(sys.argv[1]), "export", here("model.onnx"), "--out", folder + "/raw.onnx", "--export_raw_rows"], check=True)
    raw = onnxruntime.InferenceSession(folder + "/raw.onnx")
    feed = {}
    for i in raw.get_inputs():
        c = new[i.name]
        feed[i.name] = (c.astype(np.float64).to_numpy() if "double" in i.type else
                        c.map(lambda v: "" if pd.isna(v) else str(v)).to_numpy(dtype=object))[:, None]
    of_rows = raw.run(None, feed)[0][:, 0]
    assert np.abs(of_rows / np.expm1(out.astype(np.float64)) - 1).max() < 1e-5, of_rows
predicted = np.expm1(out.astype(np.float64))
sales = new["Sales"].to_numpy(dtype=np.float64)
kept = sales != 0
with open(here("golden.json"), "w") as f:
    json.dump({"prediction": predicted.tolist(), "codes": codes.tolist(), "numbers": numbers.astype(float).tolist(), "mae": float(np.abs(predicted - sales).mean()),
               "rmspe": float(np.sqrt(np.mean(((sales - predicted) / sales)[kept] ** 2)))}, f)
