"""Output that is committed beside the commands that make it: examples/*.out, and blocks of README and manual.

    python tests/cli/committed.py       run everything again and write what it prints

Numbers are compared to four digits: the last ones differ between processors. A line ``...`` stands for any lines.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import recording

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (REPOSITORY / "examples").glob("*.sh") if path.name != "quickstart.sh")
README = REPOSITORY / "README.md"
DOCUMENTS = [README, *sorted((REPOSITORY / "edgetune" / "manual").glob("*.md"))]
PICTURE = REPOSITORY / "examples" / "story.svg"
FIGURES = {
    "front.png": "edgetune search sweep.parquet --power-budget 30W --strategy roofline --quiet -o front.yaml --plot",
    "roofline.png": "edgetune roofline zoo:resnet18 --task train --batch-sizes 1,4,16,64 --device twin:orin-agx --quiet"
    " --plot",
    "run.png": "edgetune show run.parquet --view timeline --plot",
}
"""Figures of the README in ``examples``, each with the command that draws it after the README's own commands."""
_BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LONG_NUMBER = re.compile(r"\d+\.\d{4,}")


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a user in ``folder``."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": paths, "XDG_STATE_HOME": str(folder / ".state"), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def started(command: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command line as a user in ``folder`` does, both outputs together."""
    return subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **environment(folder)}, encoding="utf-8",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command line as a user in ``folder`` does; return its exit code and what it prints."""
    with started(command, folder) as process:
        out, _ = process.communicate()
    return process.returncode, out


_ASK = """
edgetune() {{
    local pid=$BASHPID code
    (printf '%s\\0' "$#" "$pid" "$PWD" "$@" > {ask})  # in a subshell: the reader opens this one's standard output
    read -r code < {answer}; return "$code"
}}
export -f edgetune
{command}"""


def run_here(command: str, folder: Path) -> tuple[int, str]:
    """Do as ``run``, but with each ``edgetune`` in this process, where everything is imported: one at a time."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        ask, answer = Path(name, "ask"), Path(name, "answer")
        os.mkfifo(ask)
        os.mkfifo(answer)
        with (
            open(ask, "r+b", buffering=0) as asked,
            started(_ASK.format(ask=ask, answer=answer, command=command), folder) as process,
        ):

            def read() -> str:
                try:
                    return process.stdout.read()
                finally:
                    asked.write(b"end\0")

            out, heard = pool.submit(read), b""
            while not heard.startswith(b"end\0"):
                heard += asked.read(1 << 16)
                count, *words = heard.decode().split("\0")
                if count.isdigit() and len(words) == int(count) + 3:
                    heard = b""
                    answer.write_text(f"{edgetune_here(*words[:-1])}\n", encoding="utf-8")
        return process.returncode, out.result()


def edgetune_here(pid: str, cwd: str, *argv: str) -> int:
    """Run a command in this process with the standard streams and the folder of another one."""
    from edgetune.cli import main

    before, kept = os.getcwd(), [os.dup(number) for number in range(3)]
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        os.chdir(cwd)
        for number in range(3):
            opened = os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
            os.dup2(opened, number)
            os.close(opened)
        with open(0, closefd=False) as sys.stdin, open(1, "w", closefd=False) as sys.stdout:
            sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            return main.run(argv)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(before)


def printed(command: str, folder: Path, run: Callable[[str, Path], tuple[int, str]] = run) -> str:
    """Return what a command prints; stop when it fails, so that an error is never committed for an output."""
    code, out = run(command, folder)
    if code != 0:
        sys.exit(f"{command.strip()} ended with {code}:\n{out}")
    return out


def rounded(text: str) -> str:
    """Return ``text`` with its long numbers to four digits."""
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", text)


def matches(expected: str, found: str) -> bool:
    """Return whether ``found`` is what was ``expected``, where ``...`` on a line of its own stands for any lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", rounded(expected), flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*".join(parts), rounded(found)) is not None


def blocks(text: str) -> list[tuple[str, str]]:
    """Return kind and body of each fenced block that is run: ``console`` (with output) and ``sh`` (without)."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(text)]


def commands(kind: str, body: str) -> list[tuple[str, str]]:
    """Return each command of a block with the output written under it."""
    if kind == "sh":
        return [(body, "")]
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        lines = part.splitlines(keepends=True)
        last = next(index for index, line in enumerate(lines) if not line.endswith("\\\n"))
        found.append(("".join(lines[: last + 1]), "".join(lines[last + 1 :])))
    return found


def write_again() -> None:
    """Write the output of every example and console block as it is now, where it differs, and the picture."""
    with tempfile.TemporaryDirectory() as name:
        for example in EXAMPLES:
            example.with_suffix(".out").write_text(printed(f"examples/{example.name}", reader(Path(name), "examples")))
        for document in DOCUMENTS:
            folder = reader(Path(name), document.stem)
            text = document.read_text(encoding="utf-8")
            for kind, body in blocks(text):
                fresh = ""
                for command, expected in commands(kind, body):
                    found = printed(command, folder)
                    fresh += f"$ {command}{expected if matches(expected, found) else found}"
                if kind == "console":
                    text = text.replace(body, fresh)
            document.write_text(text)
        for figure in FIGURES:
            shutil.copy(figure_drawn(figure, reader(Path(name), README.stem)), REPOSITORY / "examples" / figure)
    recording.write(story(), PICTURE)


def figure_drawn(name: str, folder: Path, run: Callable[[str, Path], tuple[int, str]] = run) -> Path:
    """Return a figure of the README, drawn in the folder where its commands ran."""
    printed(f"{FIGURES[name]} {name}", folder, run)
    return folder / name


def unlike(one: Path, other: Path) -> float:
    """Return the mean difference of two pictures, 0 to 1; versions of matplotlib draw a little differently."""
    from matplotlib.image import imread

    first, second = imread(one), imread(other)
    return 1.0 if first.shape != second.shape else float(abs(first - second).mean())


def story() -> list[tuple[str, str]]:
    """Return the commands of the README and their outputs, those that show all that they print on a terminal."""
    found = [each for kind, body in blocks(README.read_text(encoding="utf-8")) for each in commands(kind, body)]
    return [(command, output) for command, output in found if " | " not in command]


def reader(parent: Path, name: str) -> Path:
    """Return the folder of somebody who reads a document in a clone: it has the examples."""
    folder = parent / name
    if not folder.exists():
        folder.mkdir()
        (folder / "examples").symlink_to(REPOSITORY / "examples")
    return folder


if __name__ == "__main__":
    write_again()
