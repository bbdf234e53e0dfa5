#!/usr/bin/env python3
"""Tests the report and the page of a precision plan in headless Chromium: pages of real runs, pages with masks and pages
whose texts try to inject HTML, runs of two steps and runs without evaluation, comparisons of two and of six runs, the page of
a sweep, a run in progress. At the widths of phones, tablets and desks, light and dark. Checks layout, drawings, keys, and what
accessibility.js and, if it is installed (axe.py), axe-core find. Exits with 4 (skipped) without Chromium.

  tests/browser/test.py --binary build/onnx-amp-finetune [--screenshots FOLDER] [--page report.html ...]"""
import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import axe
import chromium

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTILE = '</script><img src="http://127.0.0.1:9/x" onerror="window.hacked = 1"><!-- <script>window.hacked = 1</script>'
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


class Runs:
    """Makes small runs, each of which takes seconds."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        done = subprocess.run([self.binary, *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}\n{done.stderr}")

    def texts(self, rows=64):
        data = os.path.join(ROOT, "models/tweet_sentiment")
        with open(os.path.join(data, "train.csv"), encoding="utf-8", newline="") as file:
            tweets = list(csv.DictReader(file))[:rows]
        for i, t in enumerate(tweets):
            t["text"] = (HOSTILE + " ") * (i % 4 == 0) + t["text"]
            t["sentiment"] = HOSTILE if i % 3 == 0 else t["sentiment"]
        with open(self.path("tweets.csv"), "w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, ["text", "sentiment"], extrasaction="ignore")
            out.writeheader()
            out.writerows(tweets)
        self.run("create", "bert", "--model_head", "none", "--out", self.path("bert.onnx"), "--model_config",
                 '{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}')
        return [self.path("bert.onnx"), "--train", self.path("tweets.csv"), "--val", self.path("tweets.csv"), "--vocab",
                os.path.join(data, "vocab.txt"), "--text_columns", "text", "--label_column", "sentiment", "--batch_size",
                "4", "--use_fp16", "--lr", "1e-3"]

    def language(self):
        data = os.path.join(ROOT, "models/language_model")
        with open(os.path.join(data, "sample/dev.txt"), encoding="utf-8") as file, open(self.path("lines.txt"), "w", encoding="utf-8") as out:
            out.writelines(f"{HOSTILE} {line}" for line in file)
        self.run("create", "gpt2", "--out", self.path("gpt2.onnx"), "--model_config",
                 '{"vocab_size": 2000, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 128}')
        self.run(self.path("gpt2.onnx"), "--config", os.path.join(data, "config.json"), "--train", self.path("lines.txt"), "--val",
                 self.path("lines.txt"), "--tokenizer", data, "--epochs", "2", "--output_dir", self.path("language"))

    def masks(self):
        data = os.path.join(ROOT, "models/unet/sample/")
        self.run("create", "unet", "--out", self.path("unet.onnx"), "--model_config",
                 '{"in_chans": 1, "num_classes": 2, "width": 4, "depth": 2}')
        self.run(self.path("unet.onnx"), "--config", os.path.join(ROOT, "models/unet/config.json"), "--train",
                 data + "train_image", "--train_masks", data + "train_mask", "--val", data + "val_image", "--val_masks",
                 data + "val_mask", "--mask_values", "0,255", "--epochs", "2", "--output_dir", self.path("unet"))


WIDTHS = (360, 390, 1000, 1400)
# The pairs (width, dark) that are checked. With --screenshots, pages are opened in all combinations.
LOOKS = {(360, False), (390, True), (1000, False), (1400, False), (1400, True)}
BEYOND = """[...document.querySelectorAll('section, .fact, #tools, header')].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => (e.querySelector('h2') || e).textContent)"""
# Finds rows of cards that end before the right edge of the page.
HOLES = """(() => {
  const holes = [];
  for (const box of document.querySelectorAll('main')) {
    const cards = [...box.children].filter(e => e.matches('section, .stack')), rows = {};
    for (const e of cards) (rows[Math.round(e.getBoundingClientRect().top)] ||= []).push(e);
    const style = getComputedStyle(box), end = box.getBoundingClientRect().right - parseFloat(style.paddingRight);
    for (const row of Object.values(rows)) if (Math.max(...row.map(e => e.getBoundingClientRect().right)) < end - 2) holes.push((row[0].querySelector('h2') || row[0]).textContent);
  }
  return holes;
})()"""
CURVES = "[...document.querySelectorAll('svg path.curve')].map(p => p.getAttribute('d'))"
AXE = axe.source()
ACCESSIBILITY = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "accessibility.js"), encoding="utf-8").read()


def look(browser, url, name, charts, screenshots, expect=()):
    for width, dark in [(w, d) for w in WIDTHS for d in (False, True)]:
        if not screenshots and (width, dark) not in LOOKS:
            continue
        what = f"{name} at {width} pixels, {'dark' if dark else 'light'}"
        tab = chromium.Tab(browser, width, 900, dark)
        tab.open(url)
        check(not tab.complaints(), f"{what}: {tab.complaints()}")
        check(all(u.startswith(("file:", "data:")) for u in tab.requests()), f"{what}: asked for {tab.requests()}")
        check(tab.value("window.hacked") is None, f"{what}: a text of the data was run")
        wide = tab.value("document.documentElement.scrollWidth - window.innerWidth")
        check(wide <= 0, f"{what}: {wide} pixels too wide")
        for problem, found in (("these run over their edges", tab.value(BEYOND)), ("holes beside", tab.value(HOLES)),
                               ("inaccessible", tab.value(ACCESSIBILITY)),
                               ("axe-core", AXE and axe.violations(tab, AXE))):  # fmt: skip
            check(not found, f"{what}: {problem}: {found}")
        curves = tab.value(CURVES)
        check(not any(re.search("NaN|undefined", d) for d in curves), f"{what}: curves of no numbers")
        drawn = [d for d in curves if len(re.findall("[MLH]", d)) > 2]
        check(len(drawn) == len(curves), f"{what}: {len(curves) - len(drawn)} curves of two points")
        check(len(drawn) >= charts if charts else not drawn, f"{what}: {len(drawn)} curves are drawn, not {charts}")
        broken = tab.value("[...document.images].filter(i => !i.complete || !i.naturalWidth).length")
        check(broken == 0, f"{what}: {broken} pictures are broken")
        shade = sum(map(int, re.findall(r"\d+", tab.value("getComputedStyle(document.body).backgroundColor"))[:3]))
        check((shade < 300) == dark, f"{what}: the background is {shade} of 765 light")
        for selector, least in expect:
            found = tab.value(f"document.querySelectorAll({selector!r}).length")
            check(found >= least, f"{what}: {found} of {selector}, not {least}")
        if screenshots:
            tab.screenshot(os.path.join(screenshots, f"{name}_{width}_{'dark' if dark else 'light'}.png"))


def press(tab, selector, *keys):
    tab.value(f"document.querySelector({selector!r}).focus()")
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key=key)


def use_keys(browser, report, plan):
    """Tests that keys alone reach the values of a chart and the nodes of a plan."""
    tab = chromium.Tab(browser, 1000, 900, False)
    tab.open(report)
    press(tab, "svg", "ArrowRight", "ArrowRight")
    said = tab.value("document.querySelector('svg + .read').textContent")
    check(re.search(r"training loss, smoothed [\d.]+ at 2\b", said), f"keys on a chart: {said}")
    press(tab, "svg", "End")
    said = tab.value("document.querySelector('svg + .read').textContent")
    check(re.search(r"at 48\b", said), f"the end of a chart: {said}")
    for width in (390, 1000, 1400):
        tab = chromium.Tab(browser, width, 900, False)
        tab.open(plan)
        narrow = tab.value("Math.min(...[...document.querySelectorAll('td.why')].map(e => Math.min(e.clientWidth, window.innerWidth - e.getBoundingClientRect().left)))")
        check(narrow >= 180, f"the reasons of a plan have {narrow} of {width} pixels")
        tall = tab.value("Math.max(...rows.map(r => r.offsetHeight))")
        check(tall <= (140 if width < 600 else 90), f"a row of a plan is {tall} pixels high at {width}")
        head = tab.value("document.getElementById('tools').offsetHeight")
        check(head <= 140, f"the part of a plan's head that stays takes {head} pixels at {width}")
        press(tab, "#list", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp")
        shown = tab.value("document.querySelector('#detail h2').textContent === nodes[1].name && rows[1].className === 'on' && document.getElementById('detail').offsetHeight > 40")
        check(shown, f"keys do not select a node of a plan at {width} pixels")


def compare_long_values(browser, page):
    """Tests a comparison of runs whose names have hyphens, and whose data have long paths."""
    for width in (390, 1000):
        tab = chromium.Tab(browser, width, 900, False)
        tab.open(page)
        broken = tab.value("[...document.querySelectorAll('.pieces > span:not(.long)')].filter(e => e.getClientRects().length > 1).map(e => e.textContent)")
        check(not broken, f"lines break within {broken} at {width} pixels")
        names = tab.value("[...document.querySelectorAll('th[scope=col] .pieces')].map(e => e.textContent)")
        check(names and all("-" in name for name in names), f"no names with hyphens: {names}")
        right = tab.value("Math.max(...[...document.querySelectorAll('td.setting')].filter(e => e.cellIndex === 1).map(e => e.getBoundingClientRect().right))")
        check(right <= width, f"the first run's values end at {right} of {width} pixels")


def watch_live(browser, runs, words, screenshots):
    run = subprocess.Popen([runs.binary, *words, "--output_dir", runs.path("live"), "--max_steps", "4000", "--eval_steps",
                            "200", "--serve"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        address = None
        for line in run.stderr:
            # Class names in the data contain an address, too, without this text.
            found = re.search(r"shown live at (http://127\.0\.0\.1:\d+/)", line)
            if found:
                address = found.group(1)
                break
        check(address, "--serve tells no address")
        tab = chromium.Tab(browser, 1400, 900, False)
        tab.open(address)
        seen = set()
        until = time.monotonic() + 60
        while len(seen) < 3 and time.monotonic() < until:
            seen.add(tab.value("DATA.runs[0].count + ' ' + (document.querySelector('svg path.curve') || {getAttribute() {}}).getAttribute('d')"))
            time.sleep(0.5)
        check(len(seen) >= 3, f"the live page shows {len(seen)} states of the run")
        check(tab.value("document.getElementById('state').textContent") == "running", "a run that goes on is called so")
        check(not tab.complaints(), f"live: {tab.complaints()}")
        problems = AXE and axe.violations(tab, AXE)
        check(not problems, f"live: axe-core: {problems}")
        check(all(u.startswith((address, "data:")) for u in tab.requests()), f"live: asked for {tab.requests()}")
        if screenshots:
            tab.screenshot(os.path.join(screenshots, "live.png"))
    finally:
        run.terminate()  # ends with a checkpoint, although a browser is connected
        run.stderr.read()
        check(run.wait(60) == 75, f"the served run ended with {run.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--screenshots")
    parser.add_argument("--page", action="append", default=[], help="look at these too")
    options = parser.parse_args()
    path = chromium.find()
    if not path:
        print("skipped: no chromium is installed (cmake/bootstrap.sh --ci does)")
        sys.exit(4)
    if options.screenshots:
        os.makedirs(options.screenshots, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium.Chromium(path) as browser:
        runs = Runs(os.path.abspath(options.binary), folder)
        words = runs.texts()
        runs.run(*words, "--epochs", "3", "--inject_overflow", "5,9-10", "--output_dir", runs.path("texts"))
        runs.run(*words, "--epochs", "2", "--use_fp16=false", "--lr", "5e-4", "--output_dir", runs.path("fp32"))
        runs.run(*words, "--lr_range_test", "60", "--use_fp16=false", "--output_dir", runs.path("rates"))
        runs.run("plan", runs.path("bert.onnx"), "--use_fp16", "--out", runs.path("plan.html"))
        runs.run("sweep", *words, "--max_steps", "48", "--eval_steps", "8", "--sweep", "lr=1e-2,1e-3,1e-4,0;batch_size=2,4,8",
                 "--sweep_prune", "median", "--output_dir", runs.path("sweep"))
        runs.language()
        runs.masks()
        runs.run(*words, "--max_steps", "2", "--output_dir", runs.path("two_steps"))
        unevaluated = words[:3] + words[5:]  # without --val
        runs.run(*unevaluated, "--max_steps", "20", "--output_dir", runs.path("unevaluated"))
        runs.run(*unevaluated, "--max_steps", "1", "--output_dir", runs.path("one_step"))
        runs.run("report", runs.path("texts"), runs.path("fp32"), "--out", runs.path("two.html"))
        deep = runs.path("a-folder-with-a-long-name/" + "and-another-one-below-it/" * 3)
        os.makedirs(deep)
        for number, name in enumerate(("lr-of-1e-05", "lr-of-2e-05")):
            shutil.copy(runs.path("tweets.csv"), f"{deep}tweets_{number}.csv")
            runs.run(*words[:2], f"{deep}tweets_{number}.csv", *words[3:], "--max_steps", "4", "--lr", f"{number + 1}e-5", "--output_dir", runs.path(name))
        runs.run("report", runs.path("lr-of-1e-05"), runs.path("lr-of-2e-05"), "--out", runs.path("long.html"))
        runs.run("report", runs.path("two_steps"), runs.path("one_step"), "--out", runs.path("short.html"))
        runs.run("report", *[runs.path(name) for name in 3 * ["texts", "fp32"]], "--out", runs.path("many.html"))
        look(browser, "file://" + runs.path("texts/report.html"), "texts", 8, options.screenshots,
             [(".sample", 3), ("line.mark", 3), ("table.matrix td", 9), (".fact", 6), ("pre.copy", 2)])
        look(browser, "file://" + runs.path("unet/report.html"), "masks", 6, options.screenshots, [(".layers img", 20)])
        look(browser, "file://" + runs.path("language/report.html"), "language", 6, options.screenshots, [(".sample", 16)])
        look(browser, "file://" + runs.path("two.html"), "compared", 10, options.screenshots, [("td.best", 3)])
        look(browser, "file://" + runs.path("many.html"), "many", 20, options.screenshots, [("td.best", 3), ("details details", 6)])
        look(browser, "file://" + runs.path("rates/report.html"), "rates", 6, options.screenshots, [("table", 2)])
        look(browser, "file://" + runs.path("plan.html"), "plan", 0, options.screenshots, [("td.why", 10)])
        look(browser, "file://" + runs.path("two_steps/report.html"), "two_steps", 0, options.screenshots, [("table", 6), (".sample", 3)])
        look(browser, "file://" + runs.path("one_step/report.html"), "one_step", 0, options.screenshots, [("table", 3)])
        look(browser, "file://" + runs.path("short.html"), "short", 0, options.screenshots, [("table", 2)])
        look(browser, "file://" + runs.path("unevaluated/report.html"), "unevaluated", 5, options.screenshots, [("pre.copy", 3), ("table", 3)])
        look(browser, "file://" + runs.path("sweep/report.html"), "sweep", 10, options.screenshots, [("td.best", 3)])
        look(browser, "file://" + runs.path("long.html"), "long", 4, options.screenshots, [("td.setting", 4)])
        compare_long_values(browser, "file://" + runs.path("long.html"))
        use_keys(browser, "file://" + runs.path("texts/report.html"), "file://" + runs.path("plan.html"))
        for page in options.page:
            look(browser, "file://" + os.path.abspath(page), os.path.basename(os.path.dirname(page)), 1, options.screenshots)
        watch_live(browser, runs, words, options.screenshots)
    print(f"browser: {len(failures)} failures" if failures else "browser: all good")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
