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


PROGRAMS: list[str] = []
"""Folders of programs that come first; see ``warm``."""


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a user in ``folder``."""
    paths = os.pathsep.join([*PROGRAMS, str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": paths, "XDG_STATE_HOME": str(folder / ".state"), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command line as a user in ``folder`` does; return its exit code and both outputs together."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **environment(folder)}, encoding="utf-8", check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def printed(command: str, folder: Path) -> str:
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


def figure_drawn(name: str, folder: Path) -> Path:
    """Return a figure of the README, drawn in the folder where its commands ran."""
    printed(f"{FIGURES[name]} {name}", folder)
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
