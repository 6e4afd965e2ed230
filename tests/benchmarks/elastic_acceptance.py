"""Count how many kernels of a folder of CUDA C are made elastic, and how many of those are checked on the CPU.

    python tests/benchmarks/elastic_acceptance.py FOLDER [-I DIR] [--no-check] [--jobs N] [-o FILE.json]

Every ``.cu`` file below FOLDER, and every header with kernels that no file includes, is given to ``edgetune schedule
kernels transform --check``. A kernel counts once, with all instances of a template and however many files of its folder
include it, by its file and line:

    equal        all forms gave the bits of the original, by a launch of the file or a guessed one
    no output    likewise, but by that launch it changes no memory
    unchecked    elastic, but not checked: the reason is told
    different    elastic, and not equal: a defect
    refused      by the code of the first reason
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

TIMEOUT_S = 600.0
_RANKS = ("different", "unchecked", "no output", "equal")
"""The worst answer of the instances of a kernel is its own."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A kernel.

    Args:
        file, line: Where it is defined.
        name: Its name, or that of one of its instances.
        answer: See above; ``refused`` with the code.
        why: The reason of what is not equal.
    """

    file: str
    line: int
    name: str
    answer: str
    why: str


def transformed(path: Path, folder: Path, include: Sequence[str], *, check: bool) -> tuple[Path, dict[str, Any] | str]:
    """Return what ``transform`` says of a file: its JSON, or the error."""
    command = [sys.executable, "-m", "edgetune", "schedule", "kernels", "transform", str(path), "--json"]
    command += ["--output", "/dev/null", "--force", *(word for each in include for word in ("-I", each))]
    command += ["--check"] if check else []
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return path, f"no answer within {TIMEOUT_S:.0f} s"
    try:
        return path, json.loads(ended.stdout)
    except ValueError:
        return path, next((line for line in ended.stderr.splitlines() if line.startswith("error: ")), "no answer")


def kernels(document: dict[str, Any], path: Path) -> Iterator[Counted]:
    """Yield the kernels of an answer, instances apart."""
    for each in document["kernels"]:
        first = each["refusals"][0] if each["refusals"] else {"code": "unknown", "reason": ""}
        checked = each.get("check") or {"answer": "unchecked", "why": ""}
        answer, why = checked["answer"], checked["why"]
        if not each["variants"]:
            answer, why = f"refused: {first['code']}", first["reason"]
        elif answer not in _RANKS:
            answer = "unchecked"
        yield Counted(f"{path.parent.name}/{Path(each['file'] or path).name}", each["line"], each["name"], answer, why)


def together(found: Sequence[Counted]) -> list[Counted]:
    """Return each kernel once: an elastic answer before a refusal, and of instances the worst."""

    def rank(each: Counted) -> int:
        return _RANKS.index(each.answer) if each.answer in _RANKS else len(_RANKS)

    by_place: dict[tuple[str, int], Counted] = {}
    for each in found:
        known = by_place.get((each.file, each.line))
        if known is None or rank(each) < rank(known):
            by_place[each.file, each.line] = each
    return list(by_place.values())


def sources(folder: Path) -> list[Path]:
    """Return the files to transform: ``.cu`` files, and headers with kernels that no other file includes."""
    every = [each for each in sorted(folder.rglob("*")) if each.suffix in (".cu", ".cuh", ".h", ".hpp")]
    texts = {each: each.read_text(errors="replace") for each in every}
    includes = {name for text in texts.values() for name in re.findall(r'#\s*include\s*[<"]([^>"]+)', text)}
    names = {Path(each).name for each in includes}
    return [each for each in every if each.suffix == ".cu" or ("__global__" in texts[each] and each.name not in names)]


def main(words: Sequence[str] | None = None) -> int:
    """Count, and print; return 1 where a form differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", dest="output", type=Path)
    asked = parser.parse_args(words)
    include = [str(Path(each).resolve()) for each in asked.include]
    files = [each.resolve() for each in sources(asked.folder)]
    one = partial(transformed, folder=asked.folder, include=include, check=asked.check)
    found, silent = list[Counted](), list[str]()
    with ThreadPoolExecutor(asked.jobs) as pool:
        for path, answer in pool.map(one, files):
            if isinstance(answer, str):
                if "has no kernel" not in answer:
                    silent.append(f"{path.name}: {answer}")
                continue
            found += kernels(answer, path)
    counted = together(found)
    elastic = sum(not each.answer.startswith("refused") for each in counted)
    print(f"{len(files)} files, {len(counted)} kernels: {elastic} elastic")
    for answer, count in sorted(Counter(each.answer for each in counted).items()):
        print(f"{count:6}  {answer}")
    for each in counted:
        if each.answer in ("different", "unchecked"):
            print(f"{each.answer}: {each.file}:{each.line}: {each.name}: {each.why}")
    for line in silent:
        print(f"not read: {line}")
    if asked.output is not None:
        asked.output.write_text(json.dumps([asdict(each) for each in counted], indent=1) + "\n")
    return int(any(each.answer == "different" for each in counted))


if __name__ == "__main__":
    sys.exit(main())
