#!/usr/bin/env python3
"""Packs an installed tree (cmake --install) as tarball, wheel and Debian package, with checksums and bill of materials.

  packaging/artifacts.py --stage FOLDER --out FOLDER --archives FILE --static FOLDER --jinja FOLDER
                         [--machine NAME --objdump PROGRAM --root FOLDER]

--archives: a list of the static libraries that are linked in. --static: the prefix of static_libraries.sh. --jinja: the
folder of the Jinja engine's sources. Licenses are copied from the folders of --static and --jinja. The optional flags
describe another architecture than this machine's: its name, an objdump that reads its files, the folder of
foreign_root.sh. Uses only the standard library. The archives contain no times, so that the same tree gives the same
bytes."""

import argparse
import base64
import gzip
import hashlib
import io
import json
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "onnx-amp-finetune"
GLIBC = (2, 31)
SUMMARY = "Fine-tunes ONNX models in mixed precision, without Python"
EPOCH = 315532800  # 1980, the first year that zip files can store


def version():
    return re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def top_folder(machine):
    """Returns the name of the folder in the tarball. The tarball has the same name."""
    return f"{NAME}-{version()}-linux-{machine}"


def bundled_libraries():
    """Returns the entries of third_party.toml for libraries whose code is in the program."""
    table = tomllib.loads((ROOT / "third_party.toml").read_text())
    return [e for e in table["library"] if e.get("bundled") and e["for"] == "program"]


def check_symbols(file, objdump):
    """Fails if a file needs a glibc later than GLIBC, or a library that a small system lacks."""
    symbols = subprocess.run([objdump, "-T", file], check=True, capture_output=True, text=True).stdout
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"\(GLIBC_([\d.]+)\)", symbols))
    headers = subprocess.run([objdump, "-p", file], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", headers))
    system = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libgomp|libonnx_amp|ld-linux\S*)\.so(\.\d+)?$")
    foreign = sorted(n for n in needed if not system.match(n))
    if newest[:2] > GLIBC or foreign:
        raise SystemExit(f"{file}: needs glibc {'.'.join(map(str, newest))}, libraries {foreign}")
    return newest


class Packages:
    """The Debian packages that are installed on this machine, and those in the folder of foreign_root.sh."""

    def __init__(self, root):
        self.root = root

    def query(self, *arguments, root=None):
        database = [f"--admindir={root}/var/lib/dpkg"] if root else []
        found = subprocess.run(["dpkg-query", *database, *arguments], capture_output=True, text=True)
        return found.stdout if found.returncode == 0 else None

    def owner(self, file):
        """Returns the Debian package that a file is from, or None."""
        path = pathlib.Path(file).resolve()
        foreign = self.root and path.is_relative_to(self.root)
        found = self.query("-S", pathlib.Path("/") / path.relative_to(self.root), root=self.root) if foreign else self.query("-S", path)
        return found.split(":")[0] if found else None

    def license(self, package):
        places = [pathlib.Path("/usr/share/doc") / package / "copyright"]
        if self.root:
            places.insert(0, self.root / "usr/share/doc" / package / "copyright")
        return next(p for p in places if p.exists())

    def version(self, package):
        return self.query("-W", "-f=${Version}", package, root=self.root) or "NOASSERTION"


def write_notices(folder, archives, static, jinja, debian):
    """Copies the licenses of all code that is linked in: archives of Debian, of static_libraries.sh, and headers."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {p.stem for p in (static / "licenses").iterdir()}
    packages = {debian.owner(a) for a in archives} | {"nlohmann-json3-dev"}
    for package in packages - {None}:
        shutil.copyfile(debian.license(package), folder / f"{package}.txt")
    for name in own:
        shutil.copyfile(static / "licenses" / f"{name}.txt", folder / f"{name}.txt")
    shutil.copyfile(jinja / "LICENSE", folder / "llama.cpp-jinja.txt")
    shutil.copyfile(ROOT / "LICENSE", folder / "onnx.txt")  # ONNX has the same license as this program
    unknown = [a for a in archives if debian.owner(a) is None and pathlib.Path(a).stem not in own | {"libonnx"}]
    if unknown:
        raise SystemExit(f"no license is known for {unknown}")


def bill_of_materials(libraries, files, debian):
    """Returns a bill of materials in SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3)."""
    packages = [{"SPDXID": "SPDXRef-program", "name": NAME, "versionInfo": version(), "licenseConcluded": "Apache-2.0",
                 "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION",
                 "filesAnalyzed": False}]
    related = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-program"}]
    for e in libraries:
        version_of = debian.version(e["debian"][0]) if e.get("debian") else "NOASSERTION"
        id = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", e["name"]).strip("-")
        packages.append({"SPDXID": id, "name": e["name"], "versionInfo": version_of, "licenseDeclared": e["license"],
                         "licenseConcluded": e["license"], "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False})
        related.append({"spdxElementId": "SPDXRef-program", "relationshipType": "CONTAINS", "relatedSpdxElement": id})
    sums = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{NAME}-{version()}",
            "documentNamespace": f"https://spdx.org/spdxdocs/{NAME}-{version()}-{sums}",
            "creationInfo": {"created": "1980-01-01T00:00:00Z", "creators": ["Tool: packaging/artifacts.py"]},
            "packages": packages, "relationships": related}


def files_below(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() or p.is_symlink())


def write_tarball(stage, out, top, compression=9):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in files_below(stage):
            info = tar.gettarinfo(path, f"{top}/{path.relative_to(stage)}")
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = "root"
            info.mode = 0o755 if info.mode & 0o100 else 0o644
            if info.isreg():
                with path.open("rb") as f:
                    tar.addfile(info, f)
            else:
                tar.addfile(info)
    with gzip.GzipFile(out, "wb", compresslevel=compression, mtime=0) as f:
        f.write(raw.getvalue())


def write_wheel(stage, out_folder, machine):
    """Writes a wheel with the tag py3-none-<platform> (PEP 427). The package calls the library by ctypes, so one wheel
    is for all versions of Python from 3.9 on."""
    tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
    files = {f"onnx_amp/{p.name}": (p.read_bytes(), 0o644) for p in sorted((ROOT / "python/onnx_amp").iterdir()) if p.is_file()}
    files["onnx_amp/bin/onnx-amp-finetune"] = ((stage / "bin/onnx-amp-finetune").read_bytes(), 0o755)
    for library in ("libonnx_amp.so.1", "libgomp.so.1"):
        files[f"onnx_amp/lib/{library}"] = ((stage / "lib" / library).resolve().read_bytes(), 0o755)
    info = f"onnx_amp_finetune-{version()}.dist-info"
    files[f"{info}/METADATA"] = ("\n".join(
        ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {version()}", f"Summary: {SUMMARY}", "Requires-Python: >=3.9",
         "Requires-Dist: numpy", "Description-Content-Type: text/markdown", "", (ROOT / "python/README.md").read_text()]).encode(), 0o644)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (f"[console_scripts]\n{NAME} = onnx_amp._command:main\n".encode(), 0o644)
    for p in files_below(stage / "share/doc"):
        files[f"{info}/licenses/{p.name}"] = (p.read_bytes(), 0o644)
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, (data, _) in files.items())
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    path = out_folder / f"onnx_amp_finetune-{version()}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return path


def write_deb(stage, out_folder, work, architecture):
    root = work / "deb"
    shutil.copytree(stage, root / "usr", symlinks=True, ignore=shutil.ignore_patterns("libgomp.so.1"))
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {NAME}\nVersion: {version()}\nArchitecture: {architecture}\nMaintainer: The {NAME} developers <noreply@localhost>\n"
        f"Depends: libc6 (>= {GLIBC[0]}.{GLIBC[1]}), libgcc-s1, libgomp1\nSection: science\nPriority: optional\nDescription: {SUMMARY}\n")
    path = out_folder / f"{NAME}_{version()}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, path], check=True, stdout=subprocess.DEVNULL,
                   env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(EPOCH)})
    return path


def main():
    parser = argparse.ArgumentParser()
    for flag in ("stage", "out", "archives", "static", "jinja"):
        parser.add_argument("--" + flag, type=pathlib.Path, required=True)
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--root", type=lambda p: pathlib.Path(p).resolve())
    a = parser.parse_args()
    machine, debian = a.machine, Packages(a.root)
    newest = max(check_symbols(p, a.objdump) for p in [a.stage / "bin/onnx-amp-finetune", *(a.stage / "lib").glob("*.so.1")])
    write_notices(a.stage / f"share/doc/{NAME}/licenses", a.archives.read_text().split(), a.static, a.jinja, debian)
    a.out.mkdir(parents=True, exist_ok=True)
    top = top_folder(machine)
    write_tarball(a.stage, a.out / f"{top}.tar.gz", top)
    write_wheel(a.stage, a.out, machine)
    write_deb(a.stage, a.out, a.stage.parent, {"x86_64": "amd64", "aarch64": "arm64"}[machine])
    sums = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(a.out.iterdir())}
    (a.out / f"{top}.spdx.json").write_text(json.dumps(bill_of_materials(bundled_libraries(), sums, debian), indent=1) + "\n")
    (a.out / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print(f"glibc {'.'.join(map(str, newest))} or later")
    for p in sorted(a.out.iterdir()):
        print(f"{p.stat().st_size / 1e6:7.1f} MB  {p.name}")


if __name__ == "__main__":
    main()
