"""Writes small tables and golden.json, the features that pandas and scikit-learn compute from them. Needs pandas,
scikit-learn and numpy.

sales.csv is the training data. new.csv has categories and missing values that sales.csv does not have. store.csv is
joined to both by Store. Codes are those of OrdinalEncoder plus 1, with 0 for unknown and missing. Numbers are those of
SimpleImputer and StandardScaler or QuantileTransformer. Parts of dates are those of pandas, with fastai's names."""
import json
import os

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OrdinalEncoder, QuantileTransformer, StandardScaler

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(4)
DAYS = pd.to_datetime(["2012-02-29", "2012-12-30", "2012-12-31", "2013-01-01", "2013-03-31", "2014-04-01", "2014-12-29",
                       "2015-06-30", "2015-07-01", "2016-01-03"])


def here(name):
    return os.path.join(HERE, name)


def table(n, states, stores):
    return pd.DataFrame({
        "Store": rng.choice(stores, n),
        "Date": rng.choice(DAYS, n).astype("datetime64[s]"),
        "State": rng.choice(np.array(states, dtype=object), n),
        "Promo": rng.integers(0, 2, n),
        "Temperature": np.where(rng.random(n) < 0.2, np.nan, rng.normal(12, 8, n).round(1)),
        "Visitors": rng.integers(20, 4000, n).astype(object),
        "Sales": rng.integers(0, 9000, n),
    })


train = table(60, ["Bayern", "Berlin", 'Nordrhein, "West"', "Saarland", None], [1, 2, 3, 10, 12])
train.loc[0, "Sales"] = 0
new = table(12, ["Berlin", "Hessen", "Saarland", None], [2, 12, 99])
new.loc[3, "Visitors"] = None  # none is missing in the training data
store = pd.DataFrame({"Store": [12, 10, 3, 2, 1], "Kind": ["a", "b", "a", None, "c"],
                      "Distance": [570.5, np.nan, 14130.0, 620.0, 29910.0]})
for name, t in [("sales.csv", train), ("new.csv", new), ("store.csv", store)]:
    t.to_csv(here(name), index=False)


def read(name):
    t = pd.read_csv(here(name), parse_dates=["Date"]).merge(pd.read_csv(here("store.csv")), on="Store", how="left")
    d = t["Date"].dt
    for part in ["Year", "Month", "Day", "Dayofweek", "Dayofyear", "Is_month_end", "Is_month_start", "Is_quarter_end",
                 "Is_quarter_start", "Is_year_end", "Is_year_start"]:
        t[part] = getattr(d, part.lower().replace("dayof", "day_of_")).astype(np.int64)
    t["Week"] = d.isocalendar().week.astype(np.int64)
    t["Elapsed"] = t["Date"].astype("datetime64[s]").astype(np.int64)
    return t


train, new = read("sales.csv"), read("new.csv")
CATEGORICAL = ["Store", "State", "Promo", "Kind", "Year", "Month", "Week", "Day", "Dayofweek", "Dayofyear", "Is_month_end",
               "Is_month_start", "Is_quarter_end", "Is_quarter_start", "Is_year_end", "Is_year_start"]
CONTINUOUS = ["Temperature", "Visitors", "Distance", "Elapsed"]
golden = {"categorical": CATEGORICAL, "continuous": CONTINUOUS, "codes": {}, "numbers": {}, "missing": {}}
encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1).fit(train[CATEGORICAL])
for name, t in [("sales", train), ("new", new)]:
    golden["codes"][name] = (encoder.transform(t[CATEGORICAL]) + 1).astype(int).tolist()
    golden["missing"][name] = t[CONTINUOUS].isna().astype(int).to_numpy().tolist()
for fill in ["median", "mean"]:
    for scaling in ["standard", "quantiles", "none"]:
        imputer = SimpleImputer(strategy=fill)
        x = imputer.fit_transform(train[CONTINUOUS])
        scaler = {"standard": StandardScaler(), "quantiles": QuantileTransformer(n_quantiles=min(1000, len(x)), subsample=None),
                  "none": None}[scaling]
        if scaler:
            scaler.fit(x)
        for name, t in [("sales", train), ("new", new)]:
            y = imputer.transform(t[CONTINUOUS])
            golden["numbers"][f"{name} {fill} {scaling}"] = (scaler.transform(y) if scaler else y).tolist()
golden["standard_target"] = StandardScaler().fit_transform(train[["Sales"]])[:, 0].tolist()
with open(here("golden.json"), "w") as f:
    json.dump(golden, f, separators=(",", ":"))
