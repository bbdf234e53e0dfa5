#!/usr/bin/env python3
"""Summarizes ctest's results: summary.py BUILD... lists failed and skipped tests, the skipped ones with their reasons, and
ends with the line "N passed, N failed, N skipped". Exits with 1 if a test failed or none ran.

A Catch2 binary counts by its test cases (BUILD/results/NAME.xml), any other ctest entry as one."""

import pathlib
import sys
import xml.etree.ElementTree as ET


def catch_cases(path):
    """Returns (passed, failed, skipped) as lists of (name, reason); None if the test program did not reach its end."""
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, FileNotFoundError):
        return None
    passed, failed, skipped = [], [], []
    for case in root.iter("TestCase"):
        overall = case.find("OverallResult")
        if overall is None:
            return None
        reasons = " ".join(" ".join((s.text or "").split()) for s in case.iter("Skip"))
        if int(overall.get("skips", "0")) and overall.get("success") == "true":
            skipped.append((case.get("name"), reasons))
        else:
            (passed if overall.get("success") == "true" else failed).append((case.get("name"), ""))
    return passed, failed, skipped


def main(builds):
    totals = [0, 0, 0]
    for build in map(pathlib.Path, builds):
        for test in ET.parse(build / "results" / "ctest.xml").getroot().iter("testcase"):
            name, status = test.get("name"), test.get("status")
            results = build / "results" / f"{name}.xml"
            cases = catch_cases(results) if results.exists() else None
            if cases is None:
                output = " ".join((test.findtext("system-out") or "").split())[-200:]
                failed = status == "fail"
                cases = ([(name, "")] if status == "run" else [],
                         [(name, output)] if failed else [],
                         [(name, output)] if not failed and status != "run" else [])
            elif status == "fail" and not cases[1]:  # the program failed after its last test case
                cases[1].append((name, "the process failed"))
            for kind, found in zip(("", "FAILED", "skipped"), cases):
                for case, reason in found if kind else ():
                    print(f"   {kind}: {build.name}/{name}: {case}{': ' + reason if reason else ''}")
            totals = [t + len(c) for t, c in zip(totals, cases)]
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["build"]))
