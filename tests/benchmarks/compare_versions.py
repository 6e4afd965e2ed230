"""Compares two installed versions of edgetune: every option of every command, and what commands print.

    python tests/benchmarks/compare_versions.py BEFORE/bin/python AFTER/bin/python

Options are compared by name, value, default and help, whatever their order and grouping. Commands run in a fresh
folder for each version, one after the other, on twins; times of day, durations and folders are blanked out. Each
difference is printed; ends with 1 when there is one.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
_TREE = """
import json, sys
from typer.main import get_command
from edgetune.cli.app import app
def walk(command, path):
    context = command.make_context(" ".join(path), [], resilient_parsing=True)
    yield path, command, context
    for name in getattr(command, "list_commands", lambda _: [])(context):
        yield from walk(command.get_command(context, name), (*path, name))
found = {}
for path, command, context in walk(get_command(app), ("edgetune",)):
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None and each.name != "help":
            found[" ".join((*path, max([*each.opts, each.name], key=len) if each.opts[0][0] == "-" else each.name))] = (
                sorted([*each.opts, *each.secondary_opts]), each.metavar, each.nargs, " ".join(record[1].split()))
json.dump(found, sys.stdout)
"""

COMMANDS = f"""\
profile zoo:mobilenet_v2 --task infer --batch-sizes 1,4 --device twin:orin-agx --modes grid:441 --dry-run
profile zoo:resnet18 --task train --batch-sizes 16 --device twin:orin-agx --modes grid:441 -o t.parquet
profile zoo:resnet18 --task infer --batch-sizes 1,4,16 --device twin:orin-agx --modes grid:441 -o i.parquet
profile zoo:mobilenet_v2 --task infer --device twin:orin-agx --json
show t.parquet --rows 5
show t.parquet -o t.csv
search t.parquet --power-budget 30W --strategy gmd --seed 3 -o plan.yaml --trace trace.parquet
search t.parquet --power-budget 30W --strategy als --seed 3 --json
search i.parquet --power-budget 30W --latency-budget 80ms --arrival-rate 60/s --seed 1
search evaluate t.parquet --sample 20 --strategies gmd,roofline --json
search t.parquet --power-budget 3mW
show plan.yaml
show trace.parquet --rows 4
roofline zoo:resnet18 --device twin:orin-agx --task infer --json
roofline ops zoo:mobilenet_v2 --task infer --batch-size 2 -o ops.parquet
roofline --device twin:orin-agx -o roofline.yaml
merge t.parquet i.parquet -o m.parquet
search i.parquet t.parquet --kind train+infer --power-budget 30W --latency-budget 500ms --arrival-rate 60/s -o p.yaml
interleave p.yaml --profile i.parquet --profile t.parquet --device twin:orin-agx --duration 2s -o run.parquet
show run.parquet --rows 5
show run.parquet --plot run.svg
schedule run {EXAMPLES / "memory-jobs.yaml"} --simulate --policy linear,masa,reuse -o made-run.parquet
show made-run.parquet --plot gantt.svg --view gantt
profile nothing.onnx
search nothing.parquet
profile zoo:resnet18 --task sleep
interleave nothing.yaml
device modes twin:orin-agx --json
zoo
help
"""

_BLANKED = (
    (r"(strategy_s|decision_\w+_s)\W+[\d.e-]+", "DURATION"),
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?", "TIME"),
    (r"/tmp/\w+", "FOLDER"),
    (r"\b\d+(\.\d+)? (ms|s|us|µs)\b(?= (in all|of wall|so far))", "DURATION"),
    (r'"(duration_s|wall_s|overhead_s)": [\d.e-]+', "DURATION"),
)


def options(python: str) -> dict[str, list[object]]:
    """Return every option by command and name."""
    found: dict[str, list[object]] = json.loads(subprocess.check_output([python, "-c", _TREE]))
    return found


def outputs(python: str) -> dict[str, str]:
    """Return what each command ends with and prints, blanked."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in COMMANDS.strip().splitlines():
            ended = subprocess.run(
                [python, "-m", "edgetune", *line.split()], cwd=folder, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            text = f"exit {ended.returncode}\n{ended.stdout}{ended.stderr}".replace(folder, "FOLDER")
            for pattern, word in _BLANKED:
                text = re.sub(pattern, word, text)
            found[line] = text
        found["files"] = "\n".join(sorted(path.name for path in Path(folder).iterdir()))
    return found


def main() -> int:
    """Print every difference."""
    before, after = sys.argv[1:3]
    differences = 0
    first, second = options(before), options(after)
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            differences += 1
            print(f"option {name}\n  before: {first.get(name)}\n  after:  {second.get(name)}")
    old, new = outputs(before), outputs(after)
    for line in old:
        if old[line] != new[line]:
            differences += 1
            print(f"$ edgetune {line}")
            print("\n".join(difflib.unified_diff(old[line].splitlines(), new[line].splitlines(), lineterm="", n=1)))
    print(f"{len(second)} options and {len(new)} outputs compared: {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
