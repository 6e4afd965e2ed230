"""Valid files of every kind that edgetune reads, as bytes: what the mutators begin with.

A kind is called after what the file holds and its format, e.g. ``timeline.json``. Every artifact is here in every
format that is read, and the golden file of every older version. Kinds of a network board or a prepared folder are
folders. The same files result in every process, so that a seed and a number say which input they make.
"""

from __future__ import annotations

import io as streams
import json
import os
import pickle
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

TESTS = Path(__file__).parents[2]
EXAMPLES = TESTS.parent / "examples"
SOURCES = TESTS.parent / "edgetune"
for _folder in ("corpus", "cli"):
    if str(TESTS / _folder) not in sys.path:
        sys.path.append(str(TESTS / _folder))

Shape = Literal["yaml", "json", "parquet", "csv", "onnx", "code", "bytes", "lines", "folder"]


class Link(bytes):
    """Where a symbolic link leads, in the place of a file's content."""


class Folder(bytes):
    """An empty folder, in the place of a file's content."""


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, Link):
            path.symlink_to(os.fsdecode(bytes(data)))
        elif isinstance(data, Folder):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Seed:
    """One valid input.

    Args:
        kind: As it is called on the command line of the fuzzer.
        shape: Which mutators know it.
        files: Content by relative path; of one file, its name alone.
        name: What a command is given: the file, or the folder that holds all of them.
    """

    kind: str
    shape: Shape
    files: Mapping[str, bytes]
    name: str


def _one(kind: str, shape: Shape, name: str, data: bytes | str) -> Seed:
    return Seed(kind, shape, {name: data.encode() if isinstance(data, str) else data}, name)


TENANTS = """kind: tenants
version: 1
tenants:
- {name: camera, infer: 'zoo:lstm', arrivals: 'uniform:10', latency_budget: 400ms, batch_size: 4}
- {name: sound, infer: tiny.onnx, arrivals: 'trace:arrivals.csv@5/s', latency_budget: 300ms}
- {name: night, train: 'zoo:lstm', batch_size: 8, weight: 2}
"""
PROBLEM = "kind: train\npower_budget_w: 30.0\nmargin: 0.05\n"
MODES = "- {gpu_mhz: 1300.5, mem_mhz: 3199}\n- {cpu_cores: 4, cpu_mhz: 1344.0, gpu_mhz: 726.75, mem_mhz: 2133}\n"
MODES_CSV = "cpu_cores,cpu_mhz,gpu_mhz,mem_mhz\n12,2201.6,1300.5,3199\n4,1344,726.75,2133\n"
ARRIVALS = "arrival_s,note\n0.0,a\n0.25,b\n0.5,\n1.75,d\n"
RATES = "rate_per_s\n5\n10\n0\n20\n"
LLM = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
       "num_key_value_heads": 2, "vocab_size": 1000, "intermediate_size": 128}  # fmt: skip
LLM_YAML = "layers: 4\nhidden: 64\nheads: 4\nkv_heads: 2\nvocab: 1000\nffn: 128\n"
LAUNCH = """kind: launch_costs
version: 1
gpu: NVIDIA GPU
uuid: GPU-0
compute_capability: '8.7'
sm_count: 16
cuda: '12.6'
at: 2026-01-02T03:04:05Z
edgetune: 0.1.0
call_s: 2.0e-06
record_s: 1.0e-06
query_s: 5.0e-07
over_s: 6.0e-06
reaction_s: 9.0e-06
over_uncertain_s: 1.0e-07
shards_s: {1: 6.0e-06, 2: 8.0e-06, 64: 0.0001}
"""
EPOCHS = "workload,batch_size,epochs,seed\nnet,16,2.5,0\nnet,32,3,0\nnet,16,2.75,1\n"
PREPARED_JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {tiny: tiny.onnx, other: tiny}
jobs: [{name: photos, networks: [tiny], arrivals: batch, count: 3}]
"""
RECIPE = "import numpy as np\n\ndef inputs(request, line):\n    return {'x': np.zeros(64, np.float32)}\n"


def _artifacts() -> list[Seed]:
    """The golden files of older versions, and what the newest of each kind holds in every format that is read."""
    from edgetune.artifacts.io import read_any
    from edgetune.artifacts.kinds import ENDINGS, current_version

    found = []
    for path in sorted((TESTS / "golden").glob("*-v*")):
        kind, _, version = path.stem.rpartition("-v")
        if int(version) != current_version(kind):
            found.append(_one(path.name, path.suffix[1:], path.name, path.read_bytes()))
        else:
            artifact = read_any(str(path))
            forms = [ending.removeprefix(".") for ending in ENDINGS[kind] if ending != ".yml"]
            found += [_one(f"{kind}.{form}", form, f"{kind}.{form}", artifact.to_bytes(form)) for form in forms]
    return found


def _texts() -> list[Seed]:
    from chain_inputs import COSTS, JOBS, PLAN, TABLE, TASKS

    constants = sorted((SOURCES / "devices/twin/constants").glob("*.yaml"))[0].read_bytes()
    return [
        _one("tenants.yaml", "yaml", "tenants.yaml", TENANTS),
        _one("problem.yaml", "yaml", "problem.yaml", PROBLEM),
        _one("modes.yaml", "yaml", "modes.yaml", MODES),
        _one("modes.csv", "csv", "modes.csv", MODES_CSV),
        _one("modes-table.csv", "csv", "modes-table.csv", "gpu_mhz,mem_mhz\n300,600\n900,2100\n"),
        _one("plan-shared.yaml", "yaml", "plan-shared.yaml", PLAN),
        _one("jobs-costs.yaml", "yaml", "jobs-costs.yaml", JOBS),
        _one("jobs-network.yaml", "yaml", "jobs-network.yaml", PREPARED_JOBS),
        _one("tasks-small.yaml", "yaml", "tasks-small.yaml", TASKS),
        _one("tasks-source.yaml", "yaml", "tasks-source.yaml", (EXAMPLES / "kernels.yaml").read_bytes()),
        _one("constants.yaml", "yaml", "constants.yaml", constants),
        _one("launch_costs.yaml", "yaml", "launch_costs.yaml", LAUNCH),
        _one("llm.json", "json", "llm.json", json.dumps(LLM)),
        _one("llm.yaml", "yaml", "llm.yaml", LLM_YAML),
        _one("table.csv", "csv", "table.csv", TABLE),
        _one("costs.csv", "csv", "costs.csv", COSTS),
        _one("epochs.csv", "csv", "epochs.csv", EPOCHS),
        _one("epochs-other.csv", "csv", "epochs-other.csv", EPOCHS.replace("net", "cnn").replace("2.5", "6")),
        _one("arrivals.csv", "csv", "arrivals.csv", ARRIVALS),
        _one("rates.csv", "csv", "rates.csv", RATES),
        _one("training.py", "code", "training.py", (EXAMPLES / "train_tiny.py").read_bytes()),
        _one("handler.py", "code", "handler.py", RECIPE),
        _one("kernel.cu", "code", "kernel.cu", (EXAMPLES / "tiled.cu").read_bytes()),
    ]


def _networks() -> list[Seed]:
    from foreign import NETWORKS

    found = [_one("tiny.onnx", "onnx", "tiny.onnx", _tiny())]
    sized = []
    for name, network in sorted(NETWORKS.items()):
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = network.write(Path(folder))
                files = {str(each.relative_to(folder)): each.read_bytes() for each in Path(folder).rglob("*.onnx")}
        except Exception:
            continue
        if len(files) == 1 and len(next(iter(files.values()))) < 20_000:
            sized.append((name, path.name, next(iter(files.values()))))
    step = max(1, len(sized) // 24)
    return found + [_one(f"{name}.onnx", "onnx", f"{name}.onnx", data) for name, _, data in sized[::step]]


def _tiny() -> bytes:
    import onnx
    from onnx import TensorProto, helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.01] * 64 * 64)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "tiny", [x], [y], [weights])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


def _arrays() -> list[Seed]:
    import numpy as np

    made = []
    for name, arrays in {
        "inputs.npz": {"x": np.full((2, 64), 0.5, np.float32)},
        "dataset.npz": {"x": np.zeros((40, 1, 8, 8), np.float32), "y": np.arange(40) % 4},
    }.items():
        sink = streams.BytesIO()
        np.savez(sink, **arrays)
        made.append(_one(name, "bytes", name, sink.getvalue()))
    return made


def _folders() -> list[Seed]:
    """What edgetune itself writes into folders: a prepared network, an interrupted sweep, a fake board."""
    with tempfile.TemporaryDirectory() as name:
        here, before = Path(name), Path.cwd()
        os.chdir(here)
        try:
            (here / "tiny.onnx").write_bytes(_tiny())
            _quietly("schedule", "prepare", "tiny.onnx", "-o", "prepared")
            _quietly("roofline", "--device", "twin:orin-agx", "--quick", "-o", "peaks.yaml")
            sweep = _interrupted_sweep()
            from edgetune.testing.fake_board import make_board
            from edgetune.testing.fake_kernel import DESCRIPTION

            make_board(here / "board", "jetson-orin-nano-8gb", kernel="5.15")
            (here / "board" / DESCRIPTION).unlink()  # what is left is files, as of a board that is mounted
            prepared = _tree(here / "prepared/tiny", "tiny")
            board = _tree(here / "board", "board")
            peaks = _undated((here / "peaks.yaml").read_bytes())
        finally:
            os.chdir(before)
    return [
        Seed("prepared", "folder", prepared, "tiny"),
        Seed("board", "folder", board, "board"),
        _one("peaks.yaml", "yaml", "peaks.yaml", peaks),
        Seed("sweep.journal", "lines", {".sweep.parquet.journal": sweep}, "sweep.parquet"),
    ]


def _tree(folder: Path, name: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        where = f"{name}/{path.relative_to(folder)}"
        if path.is_symlink():
            found[where] = Link(os.fsencode(path.readlink()))
        elif path.is_dir():
            found |= {} if any(path.iterdir()) else {where: Folder()}
        elif path.is_file():
            found[where] = _undated(path.read_bytes())
    return found


SWEEP = ("profile", "zoo:lstm", "-d", "twin:orin-agx", "-b", "1,4", "--minibatches", "3", "-o", "sweep.parquet")
"""The sweep that ``sweep.journal`` is of; run beside it, it resumes."""


def _interrupted_sweep() -> bytes:
    """Return the journal of a finished sweep as its last moment left it, without times and process ids."""
    from edgetune.stages.profiling import journal

    kept, discard = [], journal.discard_journal
    journal.discard_journal = lambda path: kept.append(path.read_bytes())
    try:
        _quietly(*SWEEP)
    finally:
        journal.discard_journal = discard
    lines = []
    for line in kept[0].splitlines():
        body = re.sub(rb'"pid": ?\d+', b'"pid":1', _undated(line[9:]))
        lines.append(b"%08x %s\n" % (zlib.crc32(body), body))
    return b"".join(lines)


def _undated(data: bytes) -> bytes:
    return re.sub(rb"20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d", rb"2026-01-02\g<1>03:04:05", data)


def _quietly(*argv: str) -> None:
    from edgetune.cli.main import run

    said = streams.StringIO()
    with redirect_stdout(streams.TextIOWrapper(streams.BytesIO())), redirect_stderr(said):
        code = run(argv)
    if code:
        raise RuntimeError(f"edgetune {' '.join(argv)} ended with {code}: {said.getvalue()}")


_MAKERS: tuple[Callable[[], list[Seed]], ...] = (_artifacts, _texts, _networks, _arrays, _folders)


@cache
def seeds() -> Mapping[str, Seed]:
    """Return every seed by its kind, in the same order in every process.

    They are made in a process of their own: this one stays as small as it is, for others are forked from it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writer, "wb") as sink:
            pickle.dump([seed for make in _MAKERS for seed in make()], sink)
            sink.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        made: list[Seed] = pickle.load(source)
    os.waitpid(pid, 0)
    return {seed.kind: seed for seed in made}


@cache
def companions() -> Mapping[str, bytes]:
    """Return the files that other files name, which lie beside every input."""
    found = seeds()
    names = ("tiny.onnx", "costs.csv", "arrivals.csv", "table.csv", "epochs-other.csv", "peaks.yaml", "kernel.cu")
    beside = {name: found[name].files[name] for name in names}
    return {**beside, "tiled.cu": found["kernel.cu"].files["kernel.cu"]}
