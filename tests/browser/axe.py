"""Runs axe-core, the usual checker of accessibility, if a Python package that contains it is installed (pip install
axe-playwright-python, or axe-core-python)."""
import importlib.util
import pathlib


def source():
    """Returns the script axe.min.js; None if no installed package has it."""
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = importlib.util.find_spec(package)
        found = [f for folder in (spec.submodule_search_locations if spec else []) for f in pathlib.Path(folder).rglob("axe.min.js")]
        if found:
            return found[0].read_text(encoding="utf-8")
    return None


RUN = """axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>
  `${v.id} (${v.impact}): ${v.help}: ` + v.nodes.slice(0, 3).map(n => n.target.join(' ')).join(', ') + ` (${v.nodes.length} in all)`))"""


def violations(tab, script):
    """Returns the rules that the page of a chromium.Tab violates, with the first three elements of each."""
    tab.value(f"{script}; undefined")
    return tab.value(RUN)
