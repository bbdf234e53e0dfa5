"""Runs steps of GitHub workflows as GitHub's runner does: shells, environment files (GITHUB_OUTPUT, GITHUB_PATH,
GITHUB_STEP_SUMMARY), conditions, composite actions. Known actions (checkout, cache, upload-artifact) are functions here.
"""
import os
import re
import shutil
import subprocess

import yaml_subset

SHELLS = {"": ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}


class Job:
    """One job in a fresh workspace, a copy of `project`.

    project: folder of the repository that is checked out. action: folder of the composite action, which `action_name`
    (OWNER/NAME) names. cache: dict of caches (key -> folder), which outlives the job. env: environment of the steps."""

    def __init__(self, folder, project, action, action_name, cache, env):
        self.folder, self.project, self.action, self.action_name, self.cache = folder, project, action, action_name, cache
        self.workspace, self.temporary = folder / "workspace", folder / "temp"
        self.artifacts = folder / "artifacts"
        for path in (self.workspace, self.temporary, self.artifacts):
            path.mkdir(parents=True)
        self.env, self.path, self.failed, self.log, self.summary = dict(env), [], False, "", ""
        self.context = {"github.sha": "0123abc", "github.run_id": folder.name, "github.run_attempt": "1",
                        "github.token": "token", "github.action_repository": action_name}

    def annotations(self):
        """Returns the messages of ::error, as the page of a run shows them."""
        found = re.findall(r"^::error title=([^:]*)::(.*)$", self.log, re.M)
        return [text.replace("%0A", "\n").replace("%25", "%") for _, text in found]

    def run(self, steps, context=None):
        """Runs steps in order; returns their outputs (step id -> dict)."""
        outputs = {}
        failed_before, self.failed = self.failed, False
        for step in steps:
            scope = {**self.context, **(context or {})}
            scope.update({f"steps.{i}.outputs.{k}": v for i, values in outputs.items() for k, v in values.items()})
            if not self.wanted(step.get("if", "success()"), scope):
                continue
            given = {k: self.expand(v, scope) for k, v in step.get("with", {}).items()}
            env = {k: self.expand(v, scope) for k, v in step.get("env", {}).items()}
            if "run" in step:
                made = self.shell(self.expand(step["run"], scope), step.get("shell", ""), env)
            else:
                made = self.use(step["uses"], given)
            if "id" in step:
                outputs[step["id"]] = made
        self.failed |= failed_before
        return outputs

    def wanted(self, condition, scope):
        """True if a step runs. Conditions are conjunctions of always(), success(), and comparisons with a text."""
        parts = [p.strip() for p in re.sub(r"^\$\{\{(.*)\}\}$", r"\1", condition).split("&&")]
        results = [] if {"always()", "success()"} & set(parts) else [not self.failed]
        for part in parts:
            compared = re.fullmatch(r"([\w.-]+) (==|!=) '([^']*)'", part)
            if compared:
                name, relation, text = compared.groups()
                results.append((scope.get(name, "") == text) == (relation == "=="))
            elif part == "success()":
                results.append(not self.failed)
            elif part != "always()":
                raise ValueError(f"the condition {condition!r} is not understood")
        return all(results)

    @staticmethod
    def expand(text, scope):
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda m: scope.get(m.group(1), ""), text)

    def shell(self, script, shell, env):
        """Runs a script; returns its outputs."""
        if "${{" in script:
            raise ValueError("an expression is left in a script")
        files = {name: self.temporary / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        (self.temporary / "script.sh").write_text(script)
        search = os.pathsep.join([*reversed(self.path), self.env["PATH"]])
        done = subprocess.run([*SHELLS[shell], self.temporary / "script.sh"], cwd=self.workspace, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=600,
                              env={**self.env, **env, "PATH": search, "RUNNER_TEMP": str(self.temporary),
                                   "GITHUB_WORKSPACE": str(self.workspace), "GITHUB_ACTIONS": "true", "CI": "true",
                                   **{k: str(v) for k, v in files.items()}})  # fmt: skip
        self.log += done.stdout
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        self.path += files["GITHUB_PATH"].read_text().split()
        self.failed |= done.returncode != 0
        return dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())

    def use(self, name, given):
        """Runs an action; returns its outputs."""
        name = name.split("@")[0]
        if name == self.action_name:
            return self.composite(given)
        actions = {"actions/checkout": self.checkout, "actions/cache/restore": self.restore, "actions/cache/save": self.save,
                   "actions/upload-artifact": self.upload}  # fmt: skip
        actions[name](**{k.replace("-", "_"): v for k, v in given.items()})
        return {}

    def composite(self, given):
        action = yaml_subset.load((self.action / "action.yml").read_text())
        unknown = set(given) - set(action["inputs"])
        missing = {k for k, v in action["inputs"].items() if v.get("required") == "true"} - set(given)
        if unknown or missing:
            raise ValueError(f"inputs of the action: unknown {unknown}, missing {missing}")
        inputs = {k: given.get(k, v.get("default", "")) for k, v in action["inputs"].items()}
        if any("shell" not in s for s in action["runs"]["steps"] if "run" in s):
            raise ValueError("a step of a composite action needs a shell")
        outputs = self.run(action["runs"]["steps"], {f"inputs.{k}": v for k, v in inputs.items()})
        scope = {f"steps.{i}.outputs.{k}": v for i, values in outputs.items() for k, v in values.items()}
        return {k: self.expand(v["value"], scope) for k, v in action["outputs"].items()}

    def checkout(self):
        shutil.copytree(self.project, self.workspace, dirs_exist_ok=True)

    def restore(self, path, key, restore_keys=""):
        found = [k for prefix in (key, *restore_keys.split()) for k in reversed(self.cache) if k.startswith(prefix)]
        if found:
            shutil.copytree(self.cache[found[0]], self.workspace / path)

    def save(self, path, key):
        if (self.workspace / path).exists():
            self.cache[key] = self.folder / "cached"
            shutil.copytree(self.workspace / path, self.cache[key])

    def upload(self, name, path):
        for one in path.split():
            if (self.workspace / one).exists():
                (self.artifacts / name).mkdir(exist_ok=True)
                shutil.copy(self.workspace / one, self.artifacts / name)
