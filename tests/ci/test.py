#!/usr/bin/env python3
"""Runs the examples of docs/ci.md and action.yml in shells like those of the CI systems, against a release that this build
makes: a gate that is missed, a run that a time limit or a signal interrupts, its continuation, artifacts, a damaged download.

  tests/ci/test.py --program PROGRAM

Skipped (exit status 4) where a program that the examples call is missing. Needs only Python's standard library."""
import argparse
import functools
import hashlib
import http.server
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "packaging")]
sys.dont_write_bytecode = True
import artifacts  # noqa: E402
import yaml_subset  # noqa: E402
from runner import Job  # noqa: E402

PAGE = (ROOT / "docs/ci.md").read_text()
WORDS = {"negative": ["bad", "poor"], "neutral": ["average", "usual"], "positive": ["good", "fine"]}
RESULTS = {"model.onnx", "run.json", "report.html", "junit.xml"}
ACTION = "OWNER/onnx-amp-finetune"


def example(language, first_line=""):
    """Returns the code block of the page that begins with this line."""
    found = [b for b in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S) if b.startswith(first_line)]
    if len(found) != 1 and first_line:
        raise ValueError(f"docs/ci.md has {len(found)} examples that begin with {first_line}")
    return found[0]


def write_project(folder, settings, correct=True):
    """Writes a repository with model, data and finetune.yaml. correct=False: labels without relation to the texts."""
    draw = random.Random(1)
    folder.mkdir()
    shutil.copy(ROOT / "tests/data/zoo/bert_cls_eager_ts14/model.onnx", folder)
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the was day film book".split() + sum(WORDS.values(), [])
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    for name, rows in (("train.csv", 256), ("dev.csv", 64)):
        lines = ["text,label"]
        for _ in range(rows):
            label = draw.choice(list(WORDS))
            told = label if correct else draw.choice(list(WORDS))
            lines.append(f"the {draw.choice(['day', 'film', 'book'])} was {draw.choice(WORDS[label])},{told}")
        (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "finetune.yaml").write_text(settings)


def write_release(folder, program):
    """Writes a release as packaging/release.sh makes it, with only the program. Returns the tarball's path."""
    stage = folder / "stage"
    (stage / "bin").mkdir(parents=True)
    shutil.copy(program, stage / "bin/onnx-amp-finetune")
    top = artifacts.top_folder(platform.machine())
    release = folder / f"v{artifacts.version()}"
    release.mkdir()
    tarball = release / f"{top}.tar.gz"
    artifacts.write_tarball(stage, tarball, top, compression=1)
    sums = {"another.whl": "0" * 64, tarball.name: hashlib.sha256(tarball.read_bytes()).hexdigest()}
    (release / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    return tarball


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class CiTest(unittest.TestCase):
    program = ""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.tarball = write_release(cls.shared / "release", cls.program)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=cls.shared / "release"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.releases = f"http://127.0.0.1:{server.server_port}"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.shared))
        self.settings = example("yaml", "model: ")
        write_project(self.folder / "project", self.settings)
        self.cache, self.jobs = {}, 0
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "gh").write_text(f'#!/bin/sh\necho "$GH_TOKEN $*" >>{self.folder}/gh.log\n')
        (bin_folder / "gh").chmod(0o755)
        self.env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive", "GITHUB_REF_NAME": "main",
                    "GITHUB_SERVER_URL": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}  # fmt: skip

    # GitHub

    def github(self, **changes):
        """Runs the workflow of the page with other inputs of the action."""
        workflow = yaml_subset.load(example("yaml", "# .github/workflows/finetune.yml"))
        steps = workflow["jobs"]["finetune"]["steps"]
        own = next(s for s in steps if s.get("uses", "").startswith(ACTION))
        self.assertEqual(own["uses"], f"{ACTION}@v{artifacts.version()}")
        own["with"] |= {"releases": self.releases} | {k.replace("_", "-"): v for k, v in changes.items()}
        self.jobs += 1
        job = Job(self.folder / f"job{self.jobs}", self.folder / "project", ROOT, ACTION, self.cache, self.env)
        job.outputs = job.run(steps).get("finetune", {})
        return job

    def kept(self, job):
        return {p.name for p in (job.artifacts / "onnx-amp-finetune").glob("*")}

    def test_github_interrupted_and_continued(self):
        stopped = self.github(max_minutes="0.00001")
        self.assertTrue(stopped.failed)
        self.assertEqual((stopped.outputs["exit-code"], stopped.outputs["stopped"]), ("75", "true"))
        self.assertIn("stopped by --max_minutes", stopped.annotations()[0])
        self.assertEqual(self.kept(stopped), {"run.json", "report.html", "junit.xml"})
        self.assertEqual((self.folder / "gh.log").read_text(), "token workflow run finetune.yml --ref main\n")
        continued = self.github()
        self.assertFalse(continued.failed, continued.log)
        self.assertIn("resuming from runs/ci/checkpoints/checkpoint-", continued.log)
        self.assertEqual((continued.outputs["exit-code"], continued.outputs["stopped"]), ("0", "false"))
        self.assertEqual(self.kept(continued), RESULTS)
        self.assertIn("accuracy on dev.csv", continued.summary)
        self.assertEqual(continued.annotations(), [])
        self.assertEqual(len((self.folder / "gh.log").read_text().splitlines()), 1)
        # The model is that of a run without an interruption.
        self.cache = {}
        whole = self.github()
        model = "artifacts/onnx-amp-finetune/model.onnx"
        self.assertEqual((whole.folder / model).read_bytes(), (continued.folder / model).read_bytes())

    def test_github_gate_missed(self):
        write_project(self.folder / "random", self.settings, correct=False)
        (self.folder / "project").rename(self.folder / "correct")
        (self.folder / "random").rename(self.folder / "project")
        job = self.github()
        self.assertTrue(job.failed)
        self.assertEqual(job.outputs["exit-code"], "12")
        self.assertRegex(job.annotations()[0],
                         r"^error: --require accuracy>=0.9: the final value is 0\.\d+; --require loss<=0.5: the final value is")
        self.assertIn("--require accuracy>=0.9", job.summary)
        self.assertEqual(self.kept(job), RESULTS)
        root = ElementTree.parse(job.artifacts / "onnx-amp-finetune/junit.xml").getroot()
        self.assertEqual((root.get("tests"), root.get("failures"), root.get("errors")), ("3", "2", "0"))
        cases = {c.get("name"): c for c in root.iter("testcase")}
        self.assertEqual(list(cases), ["run", "accuracy>=0.9", "loss<=0.5"])
        self.assertRegex(cases["accuracy>=0.9"].find("failure").get("message"), r"the final value is 0\.\d+")
        self.assertEqual(list(cases["run"]), [])

    def test_github_error(self):
        (self.folder / "project/finetune.yaml").write_text(self.settings.replace("train.csv", """'a&b<"100%">.csv'"""))
        job = self.github()
        self.assertTrue(job.failed)
        self.assertEqual((job.outputs["exit-code"], job.outputs["stopped"]), ("2", "false"))
        self.assertIn('\'a&b<"100%">.csv\' does not exist', job.annotations()[0])
        root = ElementTree.parse(job.artifacts / "onnx-amp-finetune/junit.xml").getroot()
        error, = root.iter("error")
        self.assertEqual(error.get("type"), "E_FILE_MISSING")
        self.assertIn('a&b<"100%">.csv', error.get("message"))

    def test_github_arguments_are_not_executed(self):
        job = self.github(arguments="--config finetune.yaml --text_columns \"no $(touch pwned) column\"")
        self.assertEqual(job.outputs["exit-code"], "5")
        self.assertIn("no $(touch pwned) column", job.annotations()[0])
        self.assertFalse((job.workspace / "pwned").exists())
        job = self.github(arguments="--config 'finetune.yaml")
        self.assertTrue(job.failed)
        self.assertIn("cannot be divided into words", job.annotations()[0])

    def test_github_damaged_download(self):
        job = self.github(sha256="0" * 64)
        self.assertTrue(job.failed)
        self.assertIn("does not have its SHA-256 sum", job.annotations()[0])
        missing = self.github(version="9.9.9")
        self.assertIn("9.9.9", missing.annotations()[0])
        self.assertFalse(list(missing.temporary.glob("onnx-amp-finetune*/bin")))
        good = self.github(sha256=hashlib.sha256(self.tarball.read_bytes()).hexdigest(), artifact="", max_minutes="0.00001")
        self.assertEqual(good.outputs["exit-code"], "75")
        self.assertEqual(list(good.artifacts.iterdir()), [])

    # GitLab and Jenkins

    def shell(self, words, script, variables):
        """Runs a script in the workspace that GitLab's cache and Jenkins keep. Returns exit status and output."""
        path = self.folder / "script.sh"
        path.write_text(script)
        done = subprocess.run([*words, path], cwd=self.folder / "project", env=self.env | variables, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        return done.returncode, done.stdout

    def gitlab(self, **variables):
        job = yaml_subset.load(example("yaml", "# .gitlab-ci.yml"))["finetune"]
        self.assertEqual(job["variables"]["VERSION"], artifacts.version())
        self.artifact_paths = job["artifacts"]["paths"]
        self.assertEqual((job["retry"]["exit_codes"], job["cache"]["paths"], job["artifacts"]["when"]), (["75"], ["runs/ci/"], "always"))
        script = "\n".join(job["before_script"] + job["script"])
        return self.shell(["bash", "-eo", "pipefail"], script, job["variables"] | {"RELEASES": self.releases} | variables)

    def test_gitlab(self):
        status, said = self.gitlab(MAX_MINUTES="0.00001")
        self.assertEqual(status, 75, said)
        project = self.folder / "project"
        self.assertEqual(ElementTree.parse(project / "junit.xml").getroot().get("skipped"), "1")
        status, said = self.gitlab()
        self.assertEqual(status, 0, said)
        for path in [*self.artifact_paths, "junit.xml"]:
            self.assertTrue((project / path).is_file(), path)
        damaged = self.tarball.read_bytes()
        try:
            self.tarball.write_bytes(damaged[:-1])
            status, said = self.gitlab()
            self.assertEqual(status, 1, said)
            self.assertIn("FAILED", said)
        finally:
            self.tarball.write_bytes(damaged)

    def jenkins_steps(self):
        """Returns the scripts of the Jenkinsfile, and its variables."""
        text = example("groovy")
        variables = dict(re.findall(r"^    (\w+) = '(.*)'$", text, re.M))
        self.assertEqual(variables["VERSION"], artifacts.version())
        self.artifact_paths = re.search(r"artifacts: '([^']*)'", text).group(1).split(", ")
        return [s.replace("\\\\", "\\") for s in re.findall(r"sh '''\n(.*?)'''", text, re.S)], variables | {"RELEASES": self.releases}

    def test_jenkins_gate_and_results(self):
        (fetch, train), variables = self.jenkins_steps()
        status, said = self.shell(["sh", "-xe"], fetch, variables)
        self.assertEqual(status, 0, said)
        project = self.folder / "project"
        (project / "finetune.yaml").write_text(self.settings.replace("loss<=0.5", "loss<=0.00000001"))
        status, said = self.shell(["sh", "-xe"], train, variables)
        self.assertEqual(status, 12, said)
        self.assertIn("--require loss<=1e-08: the final value is", said)
        for path in [*self.artifact_paths, "junit.xml"]:
            self.assertTrue((project / path).is_file(), path)

    def test_jenkins_abort(self):
        (fetch, train), variables = self.jenkins_steps()
        self.assertEqual(self.shell(["sh", "-xe"], fetch, variables)[0], 0)
        project = self.folder / "project"
        (project / "finetune.yaml").write_text(self.settings.replace("epochs: 8", "epochs: 4000"))
        (self.folder / "script.sh").write_text(train)
        process = subprocess.Popen(["sh", "-xe", self.folder / "script.sh"], cwd=project, env=self.env | variables, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        metrics = project / "runs/ci/metrics.jsonl"
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
        self.assertIn("stopped by SIGTERM; a checkpoint contains all completed work", said)
        case, = ElementTree.parse(project / "junit.xml").getroot().iter("testcase")
        self.assertIn("SIGTERM", case.find("skipped").get("message"))
        (project / "finetune.yaml").write_text(self.settings.replace("epochs: 8", "epochs: 4000\nmax_steps: 1"))
        status, said = self.shell(["sh", "-xe"], train, variables)
        self.assertIn("resuming from runs/ci/checkpoints/checkpoint-", said)

    # The summary of programs that end without a message

    def test_killed_program(self):
        project = self.folder / "project"
        (project / "finetune.yaml").write_text(self.settings.replace("epochs: 8", "epochs: 4000"))
        words = [self.program, "--config", "finetune.yaml", "--output_dir", "run", "--junit", "junit.xml", "--quiet"]
        process = subprocess.Popen(words, cwd=project, env=self.env)
        metrics = project / "run/metrics.jsonl"
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.02)
        process.kill()
        process.wait()
        error, = ElementTree.parse(project / "junit.xml").getroot().iter("error")
        self.assertEqual(error.get("type"), "E_INTERRUPTED")

    def test_versions(self):
        action = yaml_subset.load((ROOT / "action.yml").read_text())
        self.assertEqual(action["inputs"]["version"]["default"], artifacts.version())
        for name in action["inputs"]:
            self.assertRegex(PAGE, rf"`{name}`")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    flags, rest = parser.parse_known_args()
    for needed in ("curl", "tar", "sha256sum", "xargs"):
        if not shutil.which(needed):
            print(f"skipped: there is no {needed}")
            sys.exit(4)
    CiTest.program = os.path.abspath(flags.program)
    unittest.main(argv=[sys.argv[0], *rest])
