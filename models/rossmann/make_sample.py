#!/usr/bin/env python3
"""Generates sample/: daily sales of 40 invented stores in the two files of the competition Rossmann Store Sales.

    make_sample.py [FOLDER]        default: sample/ beside this file; needs only Python's standard library

The competition states no license, so its rows are not in this repository. Columns, quoting, dates, order of rows and
missing values are the competition's. The logarithm of a day's sales is a sum of these parts: the store's level and
trend, the day of the week, the season, the promotions, school holidays, the days before public holidays, the opening
of a competitor, and noise that partly lasts from day to day. The seed is fixed, so that each call writes the same rows.
"""
import datetime
import gzip
import io
import math
import random
import sys
from pathlib import Path

STORES, SEED = 40, 20130101
FIRST, LAST = datetime.date(2013, 1, 1), datetime.date(2015, 7, 31)
REBUILT = {7, 14, 21, 28, 35}  # closed for renovation in the second half of 2014, without rows
HEADER = '"Store","DayOfWeek","Date","Sales","Customers","Open","Promo","StateHoliday","SchoolHoliday"\n'
STORE_HEADER = ('"Store","StoreType","Assortment","CompetitionDistance","CompetitionOpenSinceMonth",'
                '"CompetitionOpenSinceYear","Promo2","Promo2SinceWeek","Promo2SinceYear","PromoInterval"\n')
INTERVALS = {"Jan,Apr,Jul,Oct": (1, 4, 7, 10), "Feb,May,Aug,Nov": (2, 5, 8, 11), "Mar,Jun,Sept,Dec": (3, 6, 9, 12)}
WEEKDAY = (0.12, 0.02, -0.02, -0.01, 0.03, -0.13, -0.05)
DAY = datetime.timedelta(days=1)


def easter(year):
    """Returns Easter Sunday, by the anonymous Gregorian algorithm."""
    a, b, c = year % 19, year // 100, year % 100
    d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
    f = d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114
    return datetime.date(year, f // 31, f % 31 + 1)


def public_holidays(catholic):
    """Returns a dict date -> kind of holiday: "a" public holiday, "b" Easter, "c" Christmas."""
    found = {}
    for year in range(FIRST.year, LAST.year + 1):
        fixed = [(1, 1), (5, 1), (10, 3)] + ([(1, 6), (11, 1)] if catholic else [])
        found.update({datetime.date(year, *d): "a" for d in fixed})
        found.update({easter(year) + n * DAY: "a" for n in (39, 50, 60)[: 3 if catholic else 2]})
        found.update({easter(year) + n * DAY: "b" for n in (-2, 1)})
        found.update({datetime.date(year, 12, d): "c" for d in (25, 26)})
    return found


def is_school_holiday(date, catholic):
    """Returns whether the date is a school holiday: around Easter and Christmas, two weeks of October, and six weeks of
    summer that begin later in the south."""
    from_easter = (date - easter(date.year)).days
    day = date.timetuple().tm_yday
    summer = (210 if catholic else 190) <= day < (252 if catholic else 232)
    return date.weekday() < 5 and (-7 <= from_easter <= 6 or day <= 4 or day >= 356 or 278 <= day < 292 or summer)


def make_store(rng, number):
    pick = lambda values: values[int(rng.random() * len(values))]
    opened = (1 + int(rng.random() * 12), 2000 + int(rng.random() * 16)) if rng.random() < 0.8 else None
    promo2 = rng.random() < 0.55
    return {
        "Store": number, "StoreType": pick("aaaacdd"), "Assortment": pick("aac"),
        "CompetitionDistance": "" if number == STORES else 10 * (1 + int(math.exp(rng.gauss(5.2, 1.3)))), "opened": opened,
        "promo2": (1 + int(rng.random() * 50), 2009 + int(rng.random() * 7), pick(list(INTERVALS))) if promo2 else None,
        "catholic": rng.random() < 0.5, "level": rng.gauss(8.65, 0.3), "trend": rng.gauss(0.02, 0.03),
        "promo": rng.gauss(0.3, 0.06), "season": rng.gauss(1.0, 0.25), "basket": rng.gauss(2.25, 0.12),
    }  # fmt: skip


def store_row(s):
    month, year = s["opened"] or ("", "")
    week, since, interval = s["promo2"] or ("", "", "")
    return (f'{s["Store"]},"{s["StoreType"]}","{s["Assortment"]}",{s["CompetitionDistance"]},{month},{year},'
            f'{1 if s["promo2"] else 0},{week},{since},"{interval}"\n')


def log_sales(s, date, promo, school, before_holiday):
    years = (date - FIRST).days / 365.25
    day = date.timetuple().tm_yday
    season = 0.06 * math.cos(2 * math.pi * (day - 150) / 365.25) + 0.38 * math.exp(-(((day - 354) / 14.0) ** 2))
    out = s["level"] + s["trend"] * years + WEEKDAY[date.weekday()] + s["season"] * season + s["promo"] * promo
    out += 0.04 * school + 0.17 * before_holiday
    out += {"a": 0.0, "c": 0.05, "d": -0.04}[s["StoreType"]] * (1 if date.weekday() == 5 else -0.2)
    if s["opened"] and (date.year, date.month) >= (s["opened"][1], s["opened"][0]):
        out -= 0.12 * math.exp(-float(s["CompetitionDistance"] or 1000) / 3000)
    if s["promo2"] and date.month in INTERVALS[s["promo2"][2]]:
        out += 0.05 * ((date.year, date.isocalendar()[1]) >= (s["promo2"][1], s["promo2"][0]))
    return out


def days_of(rng, s):
    """Yields (date, row) for the days of a store. Promotions run from Monday to Friday of every other week."""
    holidays, date, lasting = public_holidays(s["catholic"]), FIRST, 0.0
    while date <= LAST:
        lasting = 0.75 * lasting + rng.gauss(0, 0.04)
        noise, spread = rng.gauss(0, 0.075), rng.gauss(0, 0.03)
        promo = int(date.weekday() < 5 and (date - FIRST + DAY).days // 7 % 2 == 0)
        school = int(is_school_holiday(date, s["catholic"]))
        opens = int(date.weekday() < 6 and date not in holidays)
        sales = customers = 0
        if opens:
            before = date + DAY in holidays or date + 2 * DAY in holidays
            level = log_sales(s, date, promo, school, before)
            sales = round(math.exp(level + lasting + noise))
            customers = round(math.exp(level - s["basket"] - 0.1 * promo + lasting + noise + spread))
        if not (s["Store"] in REBUILT and datetime.date(2014, 7, 1) <= date <= datetime.date(2014, 12, 31)):
            yield date, (f'{s["Store"]},{date.isoweekday()},{date},{sales},{customers},{opens},{promo},'
                         f'"{holidays.get(date, "0")}","{school}"\n')
        date += DAY


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "sample"
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(SEED)
    stores = [make_store(rng, number) for number in range(1, STORES + 1)]
    rows = [(-date.toordinal(), s["Store"], row) for s in stores for date, row in days_of(rng, s)]
    (folder / "store.csv").write_text(STORE_HEADER + "".join(map(store_row, stores)), encoding="utf-8")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as f:
        f.write((HEADER + "".join(row for *_, row in sorted(rows))).encode())
    (folder / "train.csv.gz").write_bytes(packed.getvalue())


if __name__ == "__main__":
    main()
