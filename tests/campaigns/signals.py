"""Sends signals once or twice in every phase of a run. Checks how and how soon the run ends, which files it leaves, and
that a resumed run ends with the bytes of the uninterrupted one.

Signals that stop a run save a checkpoint (exit code 75) once training has begun, and end the program at once before
training has begun. SIGPIPE is ignored. SIGSTOP halts the process for a moment, until SIGCONT. In each phase the signal
is sent at a random moment after the phase has begun.
"""
import os
import shutil
import signal
import time

from compare import contents, temporary, wrong_result
from job import CREATE_LARGER, LARGER, RESUME, error_of, finish, job, write_materials

STOPPING = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "XCPU"]
IGNORED = ["PIPE", "STOP"]
DELAY_S = 0.3  # between two signals, at most
HANG_S = 180  # a process that still runs after so long hangs
MANY_ROWS = 40  # copies of the rows of a table that is long to read


def run(campaign):
    """Sends every signal in every phase, in turn."""
    folder = campaign.folder
    write_materials(folder)
    header, *rows = (folder / "t.csv").read_text().splitlines()
    (folder / "many.csv").write_text("\n".join([header, *rows * MANY_ROWS]) + "\n")
    campaign.program.succeed(CREATE_LARGER, folder)
    trials = [(phase, name) for name in STOPPING + IGNORED for phase in PHASES]
    campaign.random.shuffle(trials)
    wanted, slowest = {}, 0.0
    while campaign.more():
        phase, name = trials[campaign.tries % len(trials)]
        twice = name in STOPPING and campaign.random.random() < 0.25
        slowest = max(slowest, trial(campaign, phase, name, twice, wanted))
    campaign.measured["most seconds until the end"] = round(slowest, 2)


def trial(campaign, phase, name, twice, wanted):
    """Runs the job once with its signals, and resumes it. Returns the seconds from the last signal to the end of the
    process."""
    command, begun, longest = PHASES[phase]
    out = campaign.folder / "run"
    if command not in wanted:
        shutil.rmtree(out, ignore_errors=True)
        campaign.program.succeed(command, campaign.folder)
        wanted[command] = contents(out)
    shutil.rmtree(out, ignore_errors=True)
    process = campaign.program.start(command, campaign.folder, preexec_fn=default_actions)
    wait_for(lambda: begun(out), process)
    time.sleep(campaign.random.uniform(0, longest))
    in_time = process.poll() is None
    may_end = not in_time or publishing(out) or steps_done(out) >= int(command[command.index("--max_steps") + 1]) - 1
    seconds = send(process, name, twice, campaign.random)
    what = f"SIG{name}{' twice' if twice else ''} in {phase}"
    problems = problems_of_end(process, name, begun, may_end)
    problems += [f"still ran after {HANG_S} s"] * (seconds > HANG_S)
    problems += [f"left {temporary(out)}"] * bool(temporary(out) and process.returncode != -9)
    resumed = campaign.program.run([*command, *RESUME], campaign.folder)
    if resumed.returncode:
        problems.append(f"resumed: exit {resumed.returncode}: {resumed.stderr[-300:]}")
    else:
        problems += [f"resumed: {p}" for p in wrong_result(wanted[command], out)]
    campaign.tried(f"SIG{name}{' twice' if twice else ''}" if in_time else "ended before the signal")
    campaign.counts[f"(in: {phase})"] += in_time
    campaign.counts[f"(exit code of SIG{name}: {process.returncode})"] += in_time
    campaign.fault(f"{what}: exit {process.returncode}", *problems)
    return seconds


def default_actions():
    """Restores the default actions of signals that Python, or a shell that started it in the background, ignores,
    because children inherit ignored signals."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for(begun, process):
    """Waits until a phase has begun, or the process has ended."""
    until = time.monotonic() + HANG_S
    while process.poll() is None and not begun() and time.monotonic() < until:
        time.sleep(0.001)


def send(process, name, twice, random):
    """Sends the signals and waits for the end. Returns the seconds from the last signal to the end."""
    number = getattr(signal, "SIG" + name)
    process.send_signal(number)
    if twice:
        time.sleep(random.uniform(0, DELAY_S))
        process.send_signal(number)
    if name == "STOP":
        time.sleep(DELAY_S)
        process.send_signal(signal.SIGCONT)
    began = time.monotonic()
    finish(process)
    return 0.0 if name in IGNORED else time.monotonic() - began


def problems_of_end(process, name, begun, may_end):
    """Returns problems of the exit code. Before the program has set its handlers, the default action of a signal ends
    it."""
    number, code = getattr(signal, "SIG" + name), process.returncode
    allowed = {0} if name in IGNORED or may_end else set()
    if name not in IGNORED:
        allowed |= {75, 128 + number}
    if begun == at_once and name != "STOP":
        allowed |= {-number}
    if code not in allowed:
        return [f"exit {code}: {process.stderr[-300:]}"]
    said = error_of(process).get("exit", 0)
    return [f"exit {code}, the JSON line says {said}"] * (said != max(code, 0))


def at_once(out):
    """Returns true: the phase begins when the process starts."""
    return True


def evaluating(out):
    """Returns whether the first evaluation has begun."""
    return (out / "run.json").exists()


def has_content(path):
    """Returns whether the file exists and is not empty."""
    return path.exists() and path.stat().st_size > 0


def training(out):
    """Returns whether a step is complete."""
    return has_content(out / "metrics.jsonl")


def steps_done(out):
    """Returns the number of steps whose metrics are written."""
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def evaluated(out):
    """Returns whether an evaluation during training is complete."""
    return has_content(out / "eval.jsonl")


def saving(out):
    """Returns whether a checkpoint is being written."""
    try:
        return any(".tmp-" in name for name in os.listdir(out / "checkpoints"))
    except FileNotFoundError:
        return False


def publishing(out):
    """Returns whether the results are being written."""
    return (out / ".finish").exists() or (out / "model.onnx").exists()


def words(*more, **settings):
    """Returns the job's command as a tuple, so that it can be a key of a dict."""
    return tuple(map(str, job("run", *more, **settings)))


BIG = words(model=LARGER, steps=4, save=1, evaluate=2)
SMALL = words(steps=120, save=20, evaluate=40)
PHASES = {  # name: (command, whether the phase has begun, seconds that it lasts)
    "start": (SMALL, at_once, 0.03),
    "import of the model": (BIG, at_once, 0.2),
    "reading of the data": (words(train="many.csv", steps=4), at_once, 0.3),
    "calibration": (words("--amp_level", "auto", model=LARGER, steps=2), at_once, 0.6),
    "first evaluation": (words(val="many.csv", steps=4, evaluate=10), evaluating, 0.2),
    "step": (SMALL, training, 0.1),
    "later evaluation": (words(val="many.csv", steps=4, evaluate=2), evaluated, 0.2),
    "step of a larger model": (BIG, training, 0.3),
    "save": (BIG, saving, 0.01),
    "export": (BIG, publishing, 0.02),
}
