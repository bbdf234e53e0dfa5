"""Reads and writes that do a part of what is asked, or are interrupted (faulty_io.c): the results must not change."""
import shutil

import faults
from compare import contents, digest, wrong_result
from job import OTHER_RATE, OVERWRITE, RESUME, STOP_EARLY, job, write_materials

SETTINGS = {"steps": 8, "save": 2, "evaluate": 3}


def run(campaign):
    """Tries in turn a run, a resumed run, a run that replaces another, and an export, each with other sizes of reads
    and writes."""
    folder, program = campaign.folder, campaign.program
    faults.compile_library(folder)
    write_materials(folder)
    program.succeed(job("whole", **SETTINGS), folder)
    program.run(job("half", *STOP_EARLY, **SETTINGS), folder)
    program.succeed(job("old", *OTHER_RATE, steps=2), folder)
    program.succeed(["export", "whole", "--out", "wanted.onnx"], folder)
    wanted = contents(folder / "whole")
    kinds = [("run", None, []), ("resume", "half", RESUME), ("replace", "old", OVERWRITE), ("export", None, None)]
    while campaign.more():
        kind, before, more = kinds[campaign.tries % len(kinds)]
        seed = campaign.random.randrange(1000)
        shutil.rmtree(folder / "run", ignore_errors=True)
        if before:
            shutil.copytree(folder / before, folder / "run")
        words = ["export", "whole", "--out", "run.onnx"] if more is None else job("run", *more, **SETTINGS)
        process = program.run(words, folder, env=faults.short_io(folder, seed))
        if process.returncode:
            problems = [f"exit {process.returncode}: {process.stderr[-300:]}"]
        elif more is None:
            problems = ["other bytes"] * (digest(folder / "run.onnx") != digest(folder / "wanted.onnx"))
        else:
            problems = wrong_result(wanted, folder / "run")
        campaign.tried(kind)
        campaign.fault(f"{kind}, sizes {seed}", *problems)
