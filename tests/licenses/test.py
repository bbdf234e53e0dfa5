#!/usr/bin/env python3
"""Checks the licenses of data and libraries. Needs only Python's standard library.

1. Every file that git tracks has an entry in REUSE.toml with copyright and license. Patterns with ** match sources only, so
   that a new data file needs an entry. Every other pattern matches a file.
2. The licenses of files are among FILE_LICENSES, and LICENSES/ has the text of each and no other text.
3. third_party.toml has every library that CMake's files search for or that cmake/bootstrap.sh installs, and no others.
4. The licenses of libraries that packages may contain are among BUNDLED_LICENSES.

The tests of this file's own functions (`planted`) run first: each fault must be found in an altered copy."""
import copy
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LICENSES = {"Apache-2.0", "MIT", "CC-BY-4.0", "CC-BY-SA-4.0", "CC0-1.0", "Unicode-3.0"}
BUNDLED_LICENSES = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "IJG", "MIT", "Unicode-3.0", "Unicode-DFS-2015", "Zlib",
    "bzip2-1.0.6", "libpng-2.0", "libtiff", "Apache-2.0 WITH LLVM-exception", "GPL-2.0-or-later WITH eCos-exception-2.0",
    "GPL-3.0-or-later WITH GCC-exception-3.1"}  # fmt: skip
OTHER_LICENSES = {"GPL-2.0-or-later", "LGPL-2.1-or-later", "LicenseRef-NVIDIA-SLA"}  # licenses of libraries that are not bundled
NOT_LIBRARIES = {"PkgConfig", "Python3", "onnx_amp"}
NAMES = ("cmake", "pkgconfig", "debian", "pip")
NOT_COVERED = re.compile(r"LICENSE|LICENSES/.*|REUSE\.toml")  # files that REUSE's specification leaves out


def pattern_of(path):
    """Returns REUSE's wildcards as a regular expression: * within a folder, ** across folders."""
    parts = re.split(r"(\*\*|\*)", path)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))


def as_list(value):
    return value if isinstance(value, list) else [value]


def alternatives(expression):
    """Returns the alternatives of an SPDX expression without parentheses, each as its terms; "A WITH B" is one term."""
    return [[term.strip() for term in part.split(" AND ")] for part in expression.split(" OR ")]


def fault_of_license(expression, accepted):
    for terms in alternatives(expression):
        if accepted.issuperset(terms):
            return None
    unknown = next(term for term in alternatives(expression)[0] if term not in accepted)
    if re.search(r"\bNC\b|NonCommercial", unknown):
        return f"{unknown} forbids commercial use"
    if unknown in ("NONE", "NOASSERTION", "NoLicense", ""):
        return "no license is stated"
    return f"{unknown} is not a license that this test accepts here"


def faults_of_files(files, annotations):
    entries = [(pattern_of(path), path, note) for note in annotations for path in as_list(note["path"])]
    for compiled, path, _ in entries:
        if "**" in path:
            if not re.fullmatch(r"\*\*[\w.*]+", path) or path == "**":
                yield f"REUSE.toml: {path}: ** may only stand before a file name of sources"
        elif not any(compiled.fullmatch(name) for name in files):
            yield f"REUSE.toml: {path} matches no file"
    for name in files:
        note = next((note for compiled, _, note in reversed(entries) if compiled.fullmatch(name)), None)
        if note is None:
            yield f"{name}: no entry in REUSE.toml"
    for note in annotations:
        where = f"REUSE.toml: {as_list(note['path'])[0]}"
        if not all(as_list(note.get("SPDX-FileCopyrightText", ""))):
            yield f"{where}: no copyright"
        fault = fault_of_license(note.get("SPDX-License-Identifier", ""), FILE_LICENSES)
        if fault:
            yield f"{where}: {fault}"


def faults_of_texts(annotations, texts):
    used = {term for note in annotations for terms in alternatives(note.get("SPDX-License-Identifier", "")) for term in terms}
    yield from (f"LICENSES/{name}.txt is missing" for name in sorted(used - texts))
    yield from (f"LICENSES/{name}.txt is not used" for name in sorted(texts - used))


def searched_names(cmake, scripts, bootstrap):
    """Returns the libraries that CMake files and scripts search for or install, by the keys of third_party.toml."""
    modules = re.findall(r"pkg_check_modules\(\w+ ([^)]*)\)", cmake)
    words = {w for module in modules for w in module.split() if w not in ("REQUIRED", "QUIET", "IMPORTED_TARGET")}
    return {
        "cmake": set(re.findall(r"^\s*find_(?:package|path|library)\(([\w-]+)", cmake, re.M)) - NOT_LIBRARIES,
        "pkgconfig": {re.split("[<>=]", w)[0] for w in words},
        "debian": set(re.findall(r"(?<![\w./+-])[a-z][a-z0-9.+-]*-dev\b(?![\w-])", bootstrap)),
        "pip": set(re.findall(r"([A-Za-z][\w.-]*)==[\d%$]", scripts)),
    }


def faults_of_libraries(libraries, searched, bootstrap):
    listed = {key: {name for lib in libraries for name in lib.get(key, [])} for key in NAMES}
    for key in NAMES:
        yield from (f"third_party.toml has no library for {name} ({key})" for name in sorted(searched[key] - listed[key]))
        extra = listed[key] - searched[key]
        if key == "debian":  # programs, too
            extra = {name for name in extra if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", bootstrap)}
        yield from (f"third_party.toml: no file searches for {name} ({key})" for name in sorted(extra))
    names = {lib["name"] for lib in libraries}
    for lib in libraries:
        accepted = BUNDLED_LICENSES if lib.get("bundled", True) else BUNDLED_LICENSES | OTHER_LICENSES
        fault = fault_of_license(lib.get("license", ""), accepted)
        if fault:
            yield f"third_party.toml: {lib['name']}: {fault}"
        if not any(lib.get(key) for key in NAMES) and lib.get("through") not in names:
            yield f"third_party.toml: {lib['name']}: neither a name nor the library that needs it"


def planted(files, annotations, libraries, searched, bootstrap):
    """Yields faults that were not found in altered copies of the inputs."""

    def missed(what, found):
        if not any(what in fault for fault in found):
            yield f"planted fault not found: {what}"

    def altered(index, **values):
        return annotations[:index] + [annotations[index] | values] + annotations[index + 1 :]

    def alter_library(name, **values):
        out = copy.deepcopy(libraries)
        next(lib for lib in out if lib["name"] == name).update(values)
        return out

    new = files + ["tests/data/new_folder/new.csv", "models/new/sample/x.png"]
    data = next(i for i, note in enumerate(annotations) if note["SPDX-License-Identifier"] == "CC-BY-4.0")
    yield from missed("new_folder/new.csv: no entry", faults_of_files(new, annotations))
    yield from missed("sample/x.png: no entry", faults_of_files(new, annotations))
    yield from missed("none/*.png matches no file", faults_of_files(files, altered(data, path=["none/*.png"])))
    yield from missed("** may only", faults_of_files(files, altered(data, path=["models/**"])))
    yield from missed("no copyright", faults_of_files(files, altered(data, **{"SPDX-FileCopyrightText": ""})))
    for license_, fault in (("CC-BY-NC-4.0", "forbids commercial"), ("Apache-2.0 AND CC-BY-NC-SA-4.0", "forbids commercial"),
                            ("NOASSERTION", "no license is stated"), ("Apach-2.0", "Apach-2.0 is not"), ("", "no license is stated")):  # fmt: skip
        yield from missed(fault, faults_of_files(files, altered(data, **{"SPDX-License-Identifier": license_})))
    yield from missed("CC-BY-4.0.txt is missing", faults_of_texts(annotations, {"MIT"}))
    yield from missed("GPL-9.txt is not used", faults_of_texts(annotations, {"GPL-9"}))
    cmake = searched_names("find_package(Fftw REQUIRED)\npkg_check_modules(A REQUIRED IMPORTED_TARGET libnew>=2)", "foo==1.0", "libx-dev y")
    for name in ("Fftw (cmake)", "libnew (pkgconfig)", "libx-dev (debian)", "foo (pip)"):
        yield from missed(f"no library for {name}", faults_of_libraries(libraries, cmake, bootstrap))
    yield from missed("no file searches for Gone", faults_of_libraries(alter_library("libtiff", cmake=["TIFF", "Gone"]), searched, bootstrap))
    yield from missed("JBIG-KIT: GPL-2.0", faults_of_libraries(alter_library("JBIG-KIT", bundled=True), searched, bootstrap))
    yield from missed("GnuTLS: neither", faults_of_libraries(alter_library("GnuTLS", through="gone"), searched, bootstrap))


def main():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True)
    files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists() and not NOT_COVERED.fullmatch(name)]
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    libraries = tomllib.loads((ROOT / "third_party.toml").read_text())["library"]
    scripts = {name: (ROOT / name).read_text() for name in files if re.search(r"(CMakeLists\.txt|\.cmake|^cmake/.*\.sh)$", name)}
    cmake = "\n".join(text for name, text in scripts.items() if not name.endswith(".sh"))
    bootstrap = scripts["cmake/bootstrap.sh"]
    searched = searched_names(cmake, "\n".join(text for name, text in scripts.items() if name.startswith("cmake/")), bootstrap)
    faults = [*planted(files, annotations, libraries, searched, bootstrap), *faults_of_files(files, annotations),
              *faults_of_texts(annotations, {path.stem for path in (ROOT / "LICENSES").iterdir()}),
              *faults_of_libraries(libraries, searched, bootstrap)]  # fmt: skip
    if len(files) < 2000:
        faults.append(f"git listed only {len(files)} files")
    print("\n".join(faults + [f"{len(files)} files, {len(libraries)} libraries, {len(faults) or 'no'} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
