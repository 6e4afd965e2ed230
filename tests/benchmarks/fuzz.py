"""Commands with damaged files and journals of others: no traceback, no exit 1, nothing over 10 s or 500 MB.

    python tests/benchmarks/fuzz.py                          20,000 inputs
    python tests/benchmarks/fuzz.py --seed 7 --inputs 500    others, fewer; --first 500 goes on behind them
    python tests/benchmarks/fuzz.py --only "<*.onnx>"        command lines of LINES with this text alone: networks
    python tests/benchmarks/fuzz.py --replay 7:123 --into F  writes input 123 into F and says how it ends

Input N of a seed is a function of both numbers: a line of ``LINES``, most of its files damaged, sometimes a hostile
word. Every artifact is there in every format that is read, and in its older versions. Everything runs in processes
forked from this one, in folders that are removed. Time is that of the processor, so that other work does not count.
What failed once, as small as it still did, is kept in ``tests/cli/damaged``.
"""

import argparse
import copy
import csv
import fnmatch
import io as streams
import json
import multiprocessing
import os
import pickle
import re
import resource
import select
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "corpus"), str(TESTS / "cli")]
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

CPU_S, RSS_BYTES, WALL_S = 10.0, 500_000_000, 120.0
"""What an input may cost; the wall clock ends only what waits for ever."""
_ADDRESSES_BYTES = 4 << 30
"""What a process may reserve beyond what it begins with: less than would hurt the machine."""
MOST_BYTES = 1_000_000
CODES = frozenset((0, 2, 3, 4, 5, 6))
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")
_BATCH = 20
"""Inputs to a process, as long as none ends it."""

LINES = """
profile <*.onnx> -d twin:orin-agx -b 1 -m MAXN --minibatches 3 -o out/p.parquet
profile tiny.onnx -d twin:orin-agx -b 1 --inputs <inputs.npz> --dry-run
profile <training.py> -t train -d host -b 4 --dry-run
profile zoo:lstm -d twin:orin-agx -b 1,4 -m <modes.* profile.parquet plan.yaml table.csv> --minibatches 3 -o out/p.json
profile net -d recorded:<table.csv profile.* profile-v1.parquet> -t train -b 16 -o out/p.csv
profile resnet18 -t infer -d twin:orin-agx --ops <ops.*> --minibatches 3 -o out/p.parquet
profile zoo:lstm -d twin:orin-agx -b 1,4 --minibatches 3 -o <sweep.parquet>
search <table.csv profile.* profile-v1.parquet> --power-budget 30W -o out/plan.yaml
search <table.csv> --power-budget 30W --strategy gmd --trace out/t.parquet -o out/plan.yaml
search table.csv --problem <problem.yaml plan.*> -o out/plan.yaml
search table.csv --kind accuracy --convergence <epochs.csv convergence.*> --power-budget 30W -o out/plan.json
search table.csv --known <table.csv profile.*> --power-budget 30W -o out/plan.yaml
search zoo:lstm -d twin:orin-agx --power-budget 30W --max-points 3 --like <profile.* table.csv> -b 1 -o out/plan.yaml
search zoo:lstm -d twin:orin-agx --power-budget 30W --max-points 3 -b 1 --dry-run
search evaluate <table.csv profile.*> --strategies roofline,random:10 --sample 20 --jobs 1 -o out/e.parquet
interleave <plan-shared.yaml plan.*> -d twin:orin-agx --duration 50ms -o out/r.parquet
interleave <tenants.yaml> -d twin:orin-agx --duration 50ms -o out/r.json
interleave --infer zoo:lstm -d twin:orin-agx --profile <profile.* table.csv> --arrivals trace:<arrivals.csv rates.csv> \
--latency-budget 300ms --duration 50ms -b 2 -o out/r.parquet
schedule run <jobs-costs.yaml jobs.*> --simulate --duration 50ms -o out/t.parquet
schedule run jobs-costs.yaml --simulate --costs <costs.csv layer_costs.*> --policy bulk,masa --duration 50ms
schedule run jobs-network.yaml --prepared <tiny> --dry-run
schedule prepare <*.onnx> -o out/prepared --dry-run
schedule profile <tiny> --dry-run
schedule kernels transform <*.ptx> --explain
schedule kernels simulate <tasks-small.yaml kernel_tasks.*> --duration 5ms -o out/k.parquet
roofline <*.onnx> -d twin:orin-agx --peaks <peaks.yaml roofline.*> --no-measure -b 1
roofline llm:<llm.json llm.yaml> -d twin:orin-agx --peaks peaks.yaml --precision tf32 --context 128 --no-measure
roofline ops <*.onnx> --json
roofline ops llm:<llm.json llm.yaml> --phase decode --context 64
merge <table.csv profile.* profile-v1.parquet> <table.csv profile.*> -o out/m.csv
compare <table.csv profile.*> <table.csv profile.*>
device modes recorded:<table.csv profile.*> <modes.*>
device set twin:orin-agx <plan.* modes.yaml> --dry-run
device export <plan.*> --format nvpmodel
show <*.parquet *.csv *.json *.yaml>
show <*.parquet *.csv *.json *.yaml> --json
show <*.parquet *.json> -o out/copy.json
show <*.parquet *.json> --plot out/figure.svg
report <*.parquet *.csv *.json *.yaml> plan.yaml -o out/r.html
"""
"""Command lines that succeed with whole files, or nearly: ``<PATTERNS>`` is a file of one of these names."""

NUMBERS = (
    0, -1, 3.5, -0.0, 5e-324, 1e308, -1e308, 10**9, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, float("nan"),
    float("inf"),
)  # fmt: skip
NUMBER_TEXTS = (
    "0", "-1", "1e308", "1e309", "nan", "-inf", "Infinity", "1" * 400, "0x10", "1_000", "1,5", "1.2.3", "1e", "+5",
    "١٢", "²", "", " ", "-", "1:30:00", "true", "null", "~",
)  # fmt: skip
HOSTILE = (
    "\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\x9b31m", "\x07\x08\x7f", "a\u202egnp.exe", "\u200b", "x" * 5000, "é" * 300,
    "a\nerror: b\nhint: c", "\U0001f600", "\ufeff", "%s%n", "{0.__class__}", "$(id)", "../../../../etc/passwd",
    "/etc/passwd", "/dev/null", "-", "--help", "zoo:", "zoo:x", "twin:", "recorded:", "trace:", "llm:", "*", "[x", "=",
    "a,b", "::", " ", "", "nan", "None", "\\", '"', "'", "\x00",
)  # fmt: skip
STRUCTURES = (None, True, [], {}, [[]], [None], {"": None}, {"a": 1}, [1, "a", None], {"kind": "plan"}, {1: 2})
YAML_PIECES = (
    "!!bool x", "!!int x", "!!float x", "!!timestamp x", "!!binary '*'", "!!set {a, b}", "!!omap [a: 1]", "!!str [a]",
    "!!map [a]", "!!python/object/apply:os.system [id]", "!unknown x", "2026-13-45", "190:20:30", "0x1G", "=", "<<",
    "? [a]\n  : b", "{[a]: b}", "{<<: [a]}", "&a [*a]", "*missing", "[&a {x: 1}, *a]", "|\n  text", '"\\uD800"',
    '"\\e[31m"', "@x", "`x`", "%x", "- x", "{a: 1, a: 2}", "-.inf", ".NaN", "1e400", "[" * 200 + "]" * 200,
    "{a: " * 100 + "1" + "}" * 100, '"unfinished', "---\nx", "...", "!!int '1:99999999999999999999'",
)  # fmt: skip
"""Written in the place of a value: tags that raise, keys that are no texts, anchors, and text that is no YAML."""


# What is damaged.

TENANTS = """kind: tenants
version: 1
tenants:
- {name: camera, infer: 'zoo:lstm', arrivals: 'uniform:10', latency_budget: 400ms, batch_size: 4}
- {name: sound, infer: tiny.onnx, arrivals: 'trace:arrivals.csv@5/s', latency_budget: 300ms}
- {name: night, train: 'zoo:lstm', batch_size: 8, weight: 2}
"""
PREPARED_JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {tiny: tiny.onnx, other: tiny}
jobs: [{name: photos, networks: [tiny], arrivals: batch, count: 3}]
"""
LLM = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
       "num_key_value_heads": 2, "vocab_size": 1000, "intermediate_size": 128}  # fmt: skip
TEXTS = {
    "tenants.yaml": TENANTS,
    "jobs-network.yaml": PREPARED_JOBS,
    "problem.yaml": "kind: train\npower_budget_w: 30.0\nmargin: 0.05\n",
    "modes.yaml": "- {gpu_mhz: 1300.5, mem_mhz: 3199}\n- {cpu_cores: 4, gpu_mhz: 726.75, mem_mhz: 2133}\n",
    "modes.csv": "gpu_mhz,mem_mhz\n300,600\n900,2100\n",
    "arrivals.csv": "arrival_s,note\n0.0,a\n0.25,b\n0.5,\n1.75,d\n",
    "rates.csv": "rate_per_s\n5\n10\n0\n20\n",
    "epochs.csv": "workload,batch_size,epochs,seed\nnet,16,2.5,0\nnet,32,3,0\nnet,16,2.75,1\n",
    "llm.json": json.dumps(LLM),
    "llm.yaml": "layers: 4\nhidden: 64\nheads: 4\nkv_heads: 2\nvocab: 1000\nffn: 128\n",
}
SWEEP = ("profile", "zoo:lstm", "-d", "twin:orin-agx", "-b", "1,4", "--minibatches", "3", "-o", "sweep.parquet")

Files = Mapping[str, bytes]


def make_seeds() -> dict[str, Files]:
    """Return valid files by the name that a command is given: one file, or those of a folder or of a journal."""
    import chain_inputs as chain
    from foreign import NETWORKS

    from edgetune.artifacts.io import read_any
    from edgetune.artifacts.kinds import ENDINGS, current_version

    texts = {**TEXTS, "plan-shared.yaml": chain.PLAN, "jobs-costs.yaml": chain.JOBS, "tasks-small.yaml": chain.TASKS,
             "table.csv": chain.TABLE, "costs.csv": chain.COSTS}  # fmt: skip
    found: dict[str, Files] = {name: {name: text.encode()} for name, text in texts.items()}
    for name, path in {
        "training.py": TESTS.parent / "examples/train_tiny.py",
        "kernel.ptx": TESTS / "elastic/ptx/triton_add.ptx",
    }.items():
        found[name] = {name: path.read_bytes()}
    for path in sorted((TESTS / "golden").glob("*-v*")):
        kind, _, version = path.stem.rpartition("-v")
        if int(version) != current_version(kind):
            found[path.name] = {path.name: path.read_bytes()}
            continue
        for ending in ENDINGS[kind]:
            found[f"{kind}{ending}"] = {f"{kind}{ending}": read_any(str(path)).to_bytes(ending.removeprefix("."))}
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        for network in [NETWORKS[name] for name in sorted(NETWORKS)][::12]:
            with suppress(Exception):  # a library that is not here
                data = network.write(Path(name)).read_bytes()
                found |= {f"{network.name}.onnx": {f"{network.name}.onnx": data}} if len(data) < 20_000 else {}
        found |= _made()
        os.chdir("/")
    return found


def _made() -> dict[str, Files]:
    """Return what edgetune itself writes: a network, a prepared one, peaks, arrays, the journal of a sweep."""
    import numpy as np
    from chain_inputs import write_inputs

    from edgetune.stages.profiling import journal

    write_inputs(Path())
    _quietly("schedule", "prepare", "tiny.onnx", "-o", "prepared")
    _quietly("roofline", "--device", "twin:orin-agx", "--quick", "-o", "peaks.yaml")
    kept, discard = [], journal.discard_journal
    journal.discard_journal = lambda path: kept.append((path.name, path.read_bytes()))
    _quietly(*SWEEP)
    journal.discard_journal = discard
    np.savez("inputs.npz", x=np.full((2, 64), 0.5, np.float32))
    folder = Path("prepared/tiny")
    tree = {f"tiny/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files = {name: {name: Path(name).read_bytes()} for name in ("tiny.onnx", "peaks.yaml", "inputs.npz")}
    return {**files, "tiny": tree, "sweep.parquet": dict(kept)}


def _quietly(*argv: str) -> None:
    from edgetune.cli.main import run

    said = streams.StringIO()
    with redirect_stdout(streams.TextIOWrapper(streams.BytesIO())), redirect_stderr(said):
        code = run(argv)
    if code:
        raise RuntimeError(f"edgetune {' '.join(argv)} ended with {code}: {said.getvalue()}")


# How it is damaged.


def damaged(rng: Random, files: Files) -> Files:
    """Return files with one of them changed, or lost where there are several."""
    name = rng.choice([name for name, data in files.items() if data])
    if len(files) > 1 and rng.random() < 0.15:
        return {each: data for each, data in files.items() if each != name}
    data, ending = files[name], name.rpartition(".")[2]
    try:
        mutators = _MUTATORS.get(ending, (_bytes,))
        changed = rng.choice(mutators)(rng, data)
    except Exception:  # damaged before, so that it is of its shape no longer; or nothing can be written so
        changed = _bytes(rng, data)
    return {**files, name: changed[:MOST_BYTES]}


def _bytes(rng: Random, data: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 3))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.randint(1, 400))
        part = data[start:end]
        new = rng.choice((
            b"", part * rng.choice((2, 3, 200)), bytes(len(part)), rng.randbytes(len(part)),
            bytes(byte ^ 1 << rng.randrange(8) for byte in part[:1]) + part[1:],
        ))  # fmt: skip
        data = rng.choice((data[:start] + new + data[end:],) * 4 + (data[:start], data[start:]))
    return data if rng.random() < 0.95 else rng.choice((b"", b"\n", b"\0", b"\xff\xfe", b"PAR1", b"{}", b"[]"))


def _text(rng: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = rng.choice(_TEXT)(rng, text)
    if rng.random() < 0.1:
        return text.encode(rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32", "cp037")), "replace")
    return text.encode("utf-8", "surrogatepass")


def _at_match(rng: Random, text: str, pattern: str, new: str) -> str:
    found = list(re.finditer(pattern, text[:100_000]))
    if not found:
        return text + new
    match = rng.choice(found)
    return text[: match.start()] + new + text[match.end() :]


def _lines(rng: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or ["\n"]
    at = rng.randrange(len(lines))
    lines[at : at + 1] = rng.choice(([], [lines[at]] * rng.choice((2, 500)), [rng.choice(lines)]))
    return "".join(lines)


_TEXT: tuple[Callable[[Random, str], str], ...] = (
    lambda rng, text: _at_match(rng, text, r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", rng.choice(NUMBER_TEXTS)),
    lambda rng, text: _at_match(rng, text, r"[A-Za-z_][\w:.-]*", rng.choice(HOSTILE)),
    lambda rng, text: _at_match(rng, text, r"[A-Za-z_][\w:.-]*", rng.choice(re.findall(r"\w+", text) or ["x"])),
    lambda rng, text: _at_match(rng, text, r".", rng.choice("\0\t\x1b\n'\"{[:,#()<>*&") * rng.choice((1, 1, 50, 3000))),
    _lines,
    lambda rng, text: text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\x85", "\x0b", "\u2028"))),
)  # fmt: skip


def _yaml(rng: Random, data: bytes) -> bytes:
    document = _document(rng, yaml.load(data, yaml.CSafeLoader), mark="fuzzpiece")
    text = yaml.dump(document, sort_keys=False, default_flow_style=rng.choice((None, True, False)), allow_unicode=True)
    return text.replace("fuzzpiece", rng.choice(YAML_PIECES)).encode("utf-8", "surrogatepass")


def _json(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.05:
        return rng.choice((b"[" * 20_000, b'{"a":' * 20_000, b"null", b"NaN"))
    return json.dumps(_document(rng, json.loads(data)), ensure_ascii=rng.random() < 0.5).encode()


def _document(rng: Random, document: Any, mark: str | None = None) -> Any:
    """Return a document with one to three of its values or keys changed."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return rng.choice(STRUCTURES)
        holder, key = rng.choice(places)
        value = holder[key]
        if (roll := rng.random()) < 0.12:
            del holder[key]
        elif roll < 0.24 and isinstance(holder, dict):
            holder[rng.choice((f"{key}x", str(key)[:-1], *HOSTILE))] = holder.pop(key)
        elif roll < 0.34 and isinstance(holder, list):
            holder[key:key] = [value] * rng.choice((1, 2, 300))
        elif mark is not None and roll < 0.5:
            holder[key] = mark
        else:
            deep: Any = value
            for _ in range(rng.choice((1, 3, 60))):
                deep = [deep] if rng.random() < 0.5 else {"a": deep}
            number = value if isinstance(value, (int, float)) else 1
            near = (-number, number * 1e12, str(value), f" {value} ", f"{value}"[:-1])
            holder[key] = rng.choice((deep, *near, *rng.sample(NUMBERS, 4), *rng.sample(HOSTILE, 4),
                                      *rng.sample(STRUCTURES, 3)))  # fmt: skip
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(document) if isinstance(document, dict) else range(len(document) * isinstance(document, list)):
        yield document, key
        if isinstance(document[key], (dict, list)):
            yield from _places(document[key])


def _csv(rng: Random, data: bytes) -> bytes:
    rows = list(csv.reader(data.decode().splitlines()))
    for _ in range(rng.choice((1, 1, 2, 3))):
        row, at = rng.choice(rows), rng.randrange(len(rows[0]))
        match rng.randrange(6):
            case 0 | 1 | 2:
                row[at : at + 1] = [rng.choice((*NUMBER_TEXTS, *HOSTILE, f"{row[at]} ms", f'"{row[at]}', row[at] * 2))]
            case 3:
                row[at : at + 1] = [row[at]] * rng.choice((0, 2, 5000))
            case 4:
                for each in rows:
                    each[at : at + 1] = each[at : at + 1] * rng.choice((0, 2))
            case 5:
                rows[:] = rng.choice((rows[1:], rows[:1], rows * 100)) or [[""]]
    sink = streams.StringIO()
    csv.writer(sink, delimiter=rng.choice(",,,,;\t|"), lineterminator=rng.choice(("\n", "\r\n", "\r"))).writerows(rows)
    return sink.getvalue().encode("utf-8", "surrogatepass")


def _parquet(rng: Random, data: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(data), use_threads=False)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, head = rng.randrange(table.num_columns), dict(table.schema.metadata or {})
        name, column = table.schema.names[at], table.column(at)
        match rng.randrange(6):
            case 0 | 1:
                values = column.to_pylist()
                values[rng.randrange(len(values))] = rng.choice((None, *NUMBERS, *HOSTILE, [], [None], [float("nan")]))
                with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
                    table = table.set_column(at, name, pa.array(values, rng.choice((column.type, None))))
            case 2:
                kinds = (pa.null(), pa.string(), pa.binary(), pa.bool_(), pa.uint8(), pa.int64(), pa.float32(),
                         pa.timestamp("ns"), pa.date32(), pa.decimal128(10, 2), pa.list_(pa.string()))  # fmt: skip
                values = [rng.choice((None, 1, "a", 1.5, [["a"]])) for _ in range(table.num_rows)]
                with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
                    table = table.set_column(at, name, pa.array(values[:1] * len(values), rng.choice(kinds)))
            case 3:
                names = [*table.schema.names]
                names[at] = rng.choice((*HOSTILE[:-1], f"{name}_s", *names))
                table = rng.choice((table.rename_columns(names), table.remove_column(at)))
            case 4:
                table = rng.choice((table.slice(0, 0), pa.concat_tables([table] * 300), table.slice(1)))
            case 5:
                text = head.get(b"edgetune", b"{}")
                head[b"edgetune"] = rng.choice((_json, _json, _json, _bytes))(rng, text)
        table = table.replace_schema_metadata(head)
    sink = streams.BytesIO()
    pq.write_table(table, sink, compression=rng.choice(("snappy", "none", "zstd", "gzip")))
    return sink.getvalue()


def _onnx(rng: Random, data: bytes) -> bytes:
    """Return a model with one to four fields of its messages changed, lost or repeated; or with a graph in itself."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        node = rng.choice(model.graph.node)
        if (roll := rng.random()) < 0.06:
            graph, attribute = model.graph.SerializeToString(), node.attribute.add()
            attribute.name, attribute.type = rng.choice(("body", "then_branch", "else_branch")), 5
            attribute.g.ParseFromString(graph)
        elif roll < 0.1:  # a function that calls itself
            function = model.functions.add()
            function.name, function.domain = node.op_type, node.domain
            function.input.extend(node.input)
            function.output.extend(node.output)
            function.node.append(node)
        else:
            messages = list(_messages(model))
            words = [value for message in messages for _, value in message.ListFields() if isinstance(value, str)]
            words += [each for message in model.graph.node for each in (*message.input, *message.output)]
            _field(rng, rng.choice(messages), words)
        if model.ByteSize() > MOST_BYTES:
            break
    return model.SerializeToString()


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for _, value in message.ListFields():
        each = [value] if hasattr(value, "ListFields") else value if hasattr(value, "add") else ()
        for below in each:
            yield from _messages(below)


def _field(rng: Random, message: Any, words: Sequence[str]) -> None:
    """Change one field of a message to another value of its type, clear it, or repeat what it has."""
    field, value = rng.choice(message.ListFields() or [(None, None)])
    word = rng.choice((*words, *HOSTILE, "Loop", "If", "Scan", "Reshape", "Expand", "LSTM", "NoSuchOp"))
    number = rng.choice((0, -1, 1, 2, 3, 17, 10**6, 2**31 - 1))
    with suppress(ValueError, TypeError):
        if field is None or hasattr(value, "ListFields"):
            message.ClearField(field.name)
        elif isinstance(value, (str, bytes, int, float)):
            new: Any = word if isinstance(value, str) else _bytes(rng, value) if isinstance(value, bytes) else number
            setattr(message, field.name, new)
        elif rng.random() < 0.4:
            del value[rng.randrange(len(value)) :][:1]
        elif rng.random() < 0.4:
            value.extend([rng.choice(value)] * rng.choice((1, 1, 500)))
        elif not hasattr(value, "add"):
            value[rng.randrange(len(value))] = word if isinstance(value[0], str) else number


def _journal(rng: Random, data: bytes) -> bytes:
    """Change the identity or an entry of a journal, as if somebody had meant it."""
    import sqlite3

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        database = sqlite3.connect(file.name)
        table, column = rng.choice((("about", "identity"), ("entries", "entry")))
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        if rows:
            row, text = rng.choice(rows)
            changed = rng.choice((_json, _text))(rng, text.encode()).decode(errors="replace")
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
        database.commit()
        database.close()
        return Path(file.name).read_bytes()


Mutator = Callable[[Random, bytes], bytes]
_MUTATORS: Mapping[str, tuple[Mutator, ...]] = {
    "yaml": (_yaml, _yaml, _yaml, _text, _bytes), "json": (_json, _json, _json, _text, _bytes),
    "csv": (_csv, _csv, _csv, _text, _bytes), "parquet": (_parquet,) * 8 + (_bytes,), "onnx": (_onnx,) * 8 + (_bytes,),
    "py": (_text,), "ptx": (_text,) * 8 + (_bytes,), "journal": (_journal, _journal, _text, _bytes),
}  # fmt: skip


# The inputs.


@dataclass(frozen=True, slots=True)
class Input:
    """A command line, and the files in the folder where it runs, by relative path."""

    argv: tuple[str, ...]
    files: Files


def make_input(seeds: Mapping[str, Files], seed: int, number: int, only: str = "") -> Input:
    """Return input ``number`` of a seed: a command line with files of which most are damaged."""
    rng = Random(f"{seed}:{number}")
    lines = [line for line in LINES.split("\n") if only in line and line]
    argv: list[str] = []
    files = {path: data for whole in seeds.values() for path, data in whole.items() if ".journal" not in path}
    for word in re.findall(r"[^\s<]*<[^>]*>|\S+", rng.choice(lines)):
        start, _, patterns = word.partition("<")
        if patterns:
            kinds = [each for pattern in patterns.rstrip(">").split() for each in fnmatch.filter(seeds, pattern)]
            name = rng.choice(kinds)
            files |= damaged(rng, seeds[name]) if rng.random() < 0.85 else seeds[name]
            argv.append(start + name)
        else:
            argv.append(word)
    if rng.random() < 0.05:
        argv[rng.randrange(1, len(argv))] = rng.choice(HOSTILE[:-1])
    return Input(tuple(argv), files)


# How they end.


@dataclass(frozen=True, slots=True)
class Ended:
    """How an input ended: its exit code (negative for a signal), what it cost, and what is wrong, a line each."""

    code: int
    err: str = ""
    cpu_s: float = 0.0
    rss_bytes: int = 0
    faults: tuple[str, ...] = ()


def execute_all(inputs: Sequence[Input], folder: Path) -> list[Ended]:
    """Run inputs one after another; a new process begins behind an input that ended the last one."""
    found: list[Ended] = []
    while len(found) < len(inputs):
        found += _execute(inputs[len(found) :], folder / str(len(found)))
    return found


def _execute(inputs: Sequence[Input], folder: Path) -> list[Ended]:
    """Run inputs in one new process until the last, or until one ends the process."""
    folder.mkdir(parents=True)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(inputs, folder, writer)
    os.close(writer)
    told, since_s, late, status = b"", time.monotonic(), False, None
    while status is None:
        if select.select([reader], [], [], 0.05)[0]:
            told, since_s = told + os.read(reader, 1 << 20), time.monotonic()
        elif time.monotonic() - since_s > WALL_S:
            late = True
            os.killpg(pid, signal.SIGKILL)
        done, now = os.waitpid(pid, os.WNOHANG)
        status = now if done else None
    os.set_blocking(reader, False)
    with suppress(OSError):
        while block := os.read(reader, 1 << 20):
            told += block
    os.close(reader)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)  # what it has started and not waited for
    found, source = [], streams.BytesIO(told)
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            found.append(pickle.load(source))
    if len(found) < len(inputs):
        err, code = (folder / "err").read_text(errors="replace"), os.waitstatus_to_exitcode(status)
        frames = " < ".join(re.findall(r'File "[^"]*/edgetune/([^"]*)", line \d+', err)[:2])
        fault = f"waited {WALL_S:.0f} s" if late else f"ended the process with {code} in {frames}"
        found.append(Ended(code, err, faults=(fault,)))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _child(inputs: Sequence[Input], folder: Path, writer: int) -> None:
    """Run inputs and write how each ended to a pipe; never returns."""
    from edgetune.cli import main

    try:
        os.setsid()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _ADDRESSES_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        described, trouble = main.describe, []

        def noting(error: BaseException) -> tuple[str, str, int]:
            told = described(error)
            if told[2] == 1:
                trouble.append(_frames(error))
            return told

        main.describe = noting
        outside = _watched(folder)
        for place, given in enumerate(inputs):
            trouble.clear()
            outside.clear()
            os.write(writer, pickle.dumps(_run(given, folder / str(place), trouble, outside)))
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(70)


def _watched(folder: Path) -> list[str]:
    """Return a list that gets what is opened for writing outside a folder."""
    outside: list[str] = []
    allowed = (str(folder.resolve()), "/dev/", "/proc/", "/sys/fs/cgroup/")

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            place = os.path.realpath(os.fsdecode(arguments[0]))
            if "/__pycache__/" not in place and not place.startswith(allowed):
                outside.append(f"writes outside: {place}")

    sys.addaudithook(note)
    return outside


def _run(given: Input, home: Path, trouble: list[str], outside: list[str]) -> Ended:
    """Run one input in this process, in a folder of its own that is removed."""
    import faulthandler

    from edgetune.cli.main import run

    folder = home.parent
    (home / "out").mkdir(parents=True)
    for name, data in given.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)
    os.chdir(home)
    os.environ.update({each: str(home / "out") for each in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR",
                                                            "XDG_RUNTIME_DIR")})  # fmt: skip
    tempfile.tempdir = None
    for number, name in ((0, "/dev/null"), (1, folder / "out"), (2, folder / "err")):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.register(signal.SIGXCPU, file=2, chain=True)
    faulthandler.enable(2)
    begun_s = sum(os.times()[:4])
    resource.setrlimit(resource.RLIMIT_CPU, (int(sum(os.times()[:2]) + CPU_S) + 1, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    before = _memory("VmRSS:")
    outside.clear()
    code = int(run(list(given.argv)))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    cpu_s, rss_bytes = sum(os.times()[:4]) - begun_s, max(0, _memory("VmHWM:") - before)
    out, err = ((folder / name).read_bytes() for name in ("out", "err"))
    faults = [*judged(code, out, err, trouble), *outside[:1]]
    faults += [f"CPU: over {CPU_S:.0f} s"] * (cpu_s > CPU_S)
    faults += [f"memory: over {RSS_BYTES // 1_000_000} MB"] * (rss_bytes > RSS_BYTES)
    written = {word for flag, word in zip(given.argv, given.argv[1:], strict=False) if flag in ("-o", "--plot")}
    for name, data in given.files.items():
        cache = name.startswith(("tiny/", ".sweep"))
        if name not in written and not cache and (not (home / name).is_file() or (home / name).read_bytes() != data):
            faults.append("an input changed")
    os.chdir("/")
    shutil.rmtree(home, ignore_errors=True)
    return Ended(code, err.decode(errors="replace"), cpu_s, rss_bytes, tuple(faults))


def judged(code: int, out: bytes, err: bytes, trouble: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with an exit code and what was said."""
    text, faults = err.decode("utf-8", "replace"), []
    lines = text.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if code not in CODES:
        faults.append(f"exit {code}: {trouble[-1] if trouble else ' '.join(errors)[:120]}")
    if "Traceback (most recent call last)" in text:
        faults.append("traceback: on standard error")
    whole = len(errors) == 1 and lines[-2:-1] == errors and lines[-1].startswith("hint: ")
    if (code == 0 and errors) or (code not in (0, 1, 5) and not whole) or (code == 5 and errors and not whole):
        faults.append(f"two lines: exit {code} with {len(errors)} errors, last {lines[-2:]}"[:200])
    if _CONTROL.search(text) or (out[:4] != b"PAR1" and _CONTROL.search(out.decode("utf-8", "replace"))):
        faults.append("control letters in the output")
    return faults


def _frames(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}edgetune{os.sep}" in frame.filename]
    places = [f"{Path(frame.filename).name}:{frame.name}" for frame in (ours[-2:] or frames[-2:])]
    return f"{type(error).__name__} in {' > '.join(places)}: {' '.join(str(error).split())[:90]}"


def _memory(field: str) -> int:
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(field)]
    return int(line.split()[1]) * 1024


def preload() -> None:
    """Load every module of edgetune and what it loads later, in the process that others are forked from."""
    import importlib
    import pkgutil

    import edgetune

    modules = [module.name for module in pkgutil.walk_packages(edgetune.__path__, "edgetune.")]
    later = ["onnx", "onnxruntime", "pyarrow.parquet", "pyarrow.csv", "pydantic", "scipy.optimize",
             "matplotlib.backends.backend_svg"]  # fmt: skip
    for name in [name for name in modules if not name.endswith(("__main__", ".guardian.program"))] + later:
        with suppress(Exception):
            importlib.import_module(name)


def _batch(seeds: Mapping[str, Files], seed: int, only: str, numbers: Sequence[int]) -> list[tuple[int, str, Ended]]:
    inputs = [make_input(seeds, seed, number, only) for number in numbers]
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="edgetune-fuzz-") as folder:
        endings = execute_all(inputs, Path(folder) / "run")
    return [(number, each.argv[0], ended) for number, each, ended in zip(numbers, inputs, endings, strict=True)]


def main(words: Sequence[str] | None = None) -> int:
    """Run the inputs, print how they ended, and return 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", metavar="TEXT", help="command lines of LINES with this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", metavar="SEED:N")
    parser.add_argument("--into", type=Path, default=Path("fuzz-input"), help="folder for --replay")
    asked = parser.parse_args(words)
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:  # this process stays small and has no threads, for others are forked from it
        seeds = pool.apply(make_seeds)
    preload()
    if asked.replay:
        seed, _, number = asked.replay.partition(":")
        given = make_input(seeds, int(seed), int(number), asked.only)
        for name, data in given.files.items():
            (asked.into / name).parent.mkdir(parents=True, exist_ok=True)
            (asked.into / name).write_bytes(data)
        ((_, _, ended),) = _batch(seeds, int(seed), asked.only, [int(number)])
        print(f"cd {asked.into} && edgetune {shlex.join(given.argv)}\n{ended.err[-3000:]}")
        print(f"exit {ended.code}, {ended.cpu_s:.2f} s, {ended.rss_bytes / 1e6:.0f} MB", *ended.faults, sep="\n")
        return int(bool(ended.faults))
    begun_s, codes, commands, groups = time.monotonic(), Counter(), Counter(), {}
    slowest, largest = (0.0, 0), (0, 0)
    numbers = range(asked.first, asked.first + asked.inputs)
    batches = [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)]
    with context.Pool(asked.jobs) as pool:
        for found in pool.imap_unordered(partial(_batch, seeds, asked.seed, asked.only), batches):
            for number, command, ended in found:
                codes[ended.code] += 1
                commands[command] += 1
                slowest, largest = max(slowest, (ended.cpu_s, number)), max(largest, (ended.rss_bytes, number))
                for fault in ended.faults:
                    groups.setdefault(fault, []).append(number)
    print(f"exit codes: {dict(sorted(codes.items()))}; commands: {dict(sorted(commands.items()))}")
    print(f"slowest {slowest[0]:.1f} s (input {slowest[1]}), largest {largest[0] / 1e6:.0f} MB (input {largest[1]})")
    for fault, failed in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"FAILED {len(failed):5}  {fault}   {' '.join(f'{asked.seed}:{number}' for number in failed[:3])}")
    print(
        f"{codes.total()} inputs, seed {asked.seed}, {len(groups)} kinds of failure; {time.monotonic() - begun_s:.0f} s"
    )
    return int(bool(groups))


if __name__ == "__main__":
    sys.exit(main())
