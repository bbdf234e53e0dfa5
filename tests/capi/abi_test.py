#!/usr/bin/env python3
"""Compares the interface of libonnx_amp.so with abi.txt, and compiles its header as C and as C++.

abi.txt lists the exported symbols, the declarations and constants of onnx_amp.h, and the size of each struct with the
offset of each member. A difference is a change of the interface: a program that was compiled before may break. Functions,
constants, and members at the end of a struct with `size` may be added; for any other change increase
ONNX_AMP_ABI_VERSION, the SOVERSION in CMakeLists.txt and the name in capi/symbols.map. --update writes the file anew.
"""
import argparse
import difflib
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEADER = ROOT / "capi" / "onnx_amp.h"


def exported(library):
    """Returns the defined dynamic symbols of a 64-bit little-endian ELF file."""
    data = pathlib.Path(library).read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    symbols = next(s for s in sections if s[1] == 11)  # SHT_DYNSYM
    names = sections[symbols[6]][4]
    out = []
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, info, _, section = struct.unpack_from("<IBBH", data, at)
        if section == 0 or info >> 4 == 0:  # undefined, or local
            continue
        text = data[names + name:data.index(b"\0", names + name)].decode()
        if section != 0xfff1 or not text.startswith("ONNX_AMP_"):  # the symbol that names the version itself
            out.append(text)
    return sorted(out)


def declarations():
    """Returns the header without comments and directives: one declaration a line, and the constants that it defines."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    constants = re.findall(r"^#define (ONNX_AMP_ABI_VERSION \d+)", text, flags=re.M)
    text = re.sub(r"^#.*$", "", text, flags=re.M).replace('extern "C" {', "")
    text = re.sub(r"\s+", " ", text)
    out, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            out.append(text[begin:i].replace("ONNX_AMP_API", "").strip(" }"))
            begin = i + 1
    return constants + out


def layouts(cc):
    """Returns the size of every struct of the header, and the offset of every member, as this compiler lays them
    out."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    code = ["#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, flags=re.S):
        code.append(f'  printf("{name}: %zu bytes", sizeof({name}));')
        for member in (m.strip() for m in body.split(";")):
            if not member:
                continue
            found = re.search(r"\(\*(\w+)\)\(", member) or re.search(r"(\w+)$", member)
            for field in [found.group(1)]:
                code.append(f'  printf(", {field} %zu", offsetof({name}, {field}));')
        code.append('  printf("\\n");')
    code += ["  return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "layout.c", pathlib.Path(folder) / "layout"
        source.write_text("\n".join(code) + "\n")
        subprocess.run([cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", source, "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def compile_headers(cc, cxx):
    """Compiles the headers without other code, with the warnings that their users may have enabled."""
    common = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-fsyntax-only"]
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder) / "onnx_amp"
        include.symlink_to(ROOT / "capi", target_is_directory=True)
        for compiler, language, standard, header in [(cc, "c", "c99", "onnx_amp.h"), (cc, "c", "c11", "onnx_amp.h"),
                                                     (cxx, "c++", "c++98", "onnx_amp.h"), (cxx, "c++", "c++20", "onnx_amp.h"),
                                                     (cxx, "c++", "c++17", "onnx_amp.hpp"),
                                                     (cxx, "c++", "c++20", "onnx_amp.hpp")]:
            source = pathlib.Path(folder) / f"user.{'c' if language == 'c' else 'cc'}"
            source.write_text(f"#include <onnx_amp/{header}>\nint main(void) {{ return 0; }}\n")
            # No -pedantic for C++98, which lacks int64_t.
            options = [o for o in common if (standard, o) != ("c++98", "-pedantic")]
            subprocess.run([compiler, f"-std={standard}", *options, f"-I{folder}", source], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", dest="shared", required=True)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--update", action="store_true", help="write abi.txt")
    args = parser.parse_args()
    compile_headers(args.cc, args.cxx)
    now = ["# Exported symbols of libonnx_amp.so", *exported(args.shared), "", "# Declarations of onnx_amp.h",
           *declarations(), "", "# Layout of its structs", *layouts(args.cc)]
    functions = {m for d in declarations() for m in re.findall(r"\b(onnx_amp_\w+)\(", d)}
    if functions != set(exported(args.shared)):
        sys.exit(f"declared and exported functions differ: {sorted(functions ^ set(exported(args.shared)))}")
    path = HERE / "abi.txt"
    if args.update:
        path.write_text("\n".join(now) + "\n")
        return
    before = path.read_text().splitlines()
    if before != now:
        print("\n".join(difflib.unified_diff(before, now, "abi.txt", "now", lineterm="", n=0)))
        sys.exit(f"the interface has changed; {__file__} --update accepts it, its first lines say what is allowed")


if __name__ == "__main__":
    main()
