"""Print how far operator costs agree with published ones and with other counters.

python tests/benchmarks/ops_counts.py --data FOLDER [--published FILE] [--others FOLDER] [--exports FOLDER] [--cases]

FOLDER of --data holds torchvision/ops.csv and pagoda/analytical_flops_mem.csv; FILE is the list of published figures.
--others makes (or takes) a virtual environment there, installs onnx-tool and fvcore into it from PyPI, and counts the
same networks with them and with torch's FlopCounterMode. --exports costs the zoo as ONNX Runtime optimises and
quantises it, into that folder. --cases goes through every test case of ONNX's own operators.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pagoda_counting import LAYERS, WIDE, WORDS, bytes_there, lstm_beside_counters, lstm_there, reasons

import edgetune
from edgetune.artifacts.ops import OpsTable, ledger
from edgetune.errors import InputError
from edgetune.workloads import zoo
from edgetune.workloads.costs import model_table, operator_table
from edgetune.workloads.costs.ops_table import View
from edgetune.workloads.graph_builder import GraphBuilder
from edgetune.workloads.resolve import resolve

TORCHVISION = {
    "MobileNet_V3_Large": "mobilenet_v3_large",
    "MobileNet_V2": "mobilenet_v2",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "AlexNet": "alexnet",
    "SqueezeNet1_0": "squeezenet",
}
PAGODA = {
    "mobnet": "mobilenet_v3_large",
    "resnet50": "resnet50",
    "yolov8n": "yolov8n",
    "lstm": "lstm",
    "bert-large": "bert_large",
}
OTHERS = ("onnx-tool", "fvcore", "iopath", "yacs", "termcolor", "tabulate", "portalocker", "tqdm", "pillow")
"""Packages of the scratch environment; torch, onnx and numpy are this environment's own, so that all tools have one."""
COMPARED = ("resnet50", "bert_base", "mobilenet_v3_large", "yolov8n", "lstm")
ROUNDS = 5


def table_of(name: str, batch_size: int) -> OpsTable:
    return operator_table(resolve(f"zoo:{name}"), "infer", batch_size)


def eager_of(name: str, batch_size: int) -> OpsTable:
    return operator_table(resolve(f"zoo:{name}"), "infer", batch_size, eager=True)


def ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.3f}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with columns as wide as they need."""
    print(f"\n{title}")
    lines = [columns, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def against_torchvision(data: Path) -> None:
    """MACs and parameters of every network in both: within 1 %, or it says so."""
    rows, seen = [], set()
    with (data / "torchvision/ops.csv").open() as file:
        for line in csv.DictReader(file):
            name = TORCHVISION.get(line["model"])
            if name is None or name in seen:
                continue
            seen.add(name)
            table, published = table_of(name, 1), float(line["gmacs_ops"])
            off = table.macs / 1e9 / published - 1
            parameters = table.parameters - int(line["num_params"]) if line["num_params"] else "not printed there"
            said = "within 1 %" if abs(off) <= 0.01 else "NOT within 1 %"
            rows.append((name, f"{table.macs / 1e9:.4f}", published, f"{off:+.2%}", said, parameters))
    show("torchvision: GMAC of one image", ("network", "ours", "published", "off", "", "parameters more"), rows)


def against_pagoda(data: Path) -> None:
    """FLOP and bytes beside the analytical table at batch 1 and 64; of the LSTM it is another network, see below."""
    rows = []
    with (data / "pagoda/analytical_flops_mem.csv").open() as file:
        for line in csv.DictReader(file):
            batch_size, theirs = int(line["bs"]), int(line["mem_acc"])
            if batch_size not in (1, 64):
                continue
            name = PAGODA[line["model"]]
            if name == "lstm":
                flops, moved = lstm_there(batch_size, decoded=8)
                table, why = their_lstm(8, batch_size), THEIR_LSTM
                told = ratio(moved, theirs), f"{why}; FLOP by their rules: {ratio(flops, int(line['flops']))}"
                name = "their LSTM"
            else:
                table = table_of(name, batch_size)
                told = ratio(bytes_there(table, norms=False), theirs), reasons(table, norms=False)
            parts = eager_of(name, batch_size) if name != "their LSTM" else their_lstm(8, batch_size, view="eager")
            ours = ratio(table.flops, int(line["flops"])), ratio(table.bytes_moved, theirs)
            rows.append((name, batch_size, *ours, ratio(parts.bytes_moved, theirs), *told))
    columns = ("network", "batch", "FLOP, ours/theirs", "bytes", "eager", "bytes by their rules", "what differs")
    show("Pagoda's analytical table", columns, rows)


THEIR_LSTM = (
    "not the zoo's; there its layers are counted for one sample whatever the batch, a multiply-accumulate as one FLOP, "
    "and their weights are read once, not at each step"
)


def their_lstm(steps: int, batch_size: int, *, every: bool = True, view: View = None) -> OpsTable:
    """Return our costs of the LSTM of their tables, which decodes ``every`` word or the last."""
    graph = GraphBuilder("their LSTM")
    tokens = graph.input("tokens", ("batch", steps), "int64")
    x = graph.transpose("first", graph.embedding("embedding", tokens, WORDS, WIDE), (1, 0, 2))
    for layer in range(LAYERS):
        x, last = graph.lstm(f"lstm.{layer}", x, WIDE)
    decoded = graph.reshape("words", x, (-1, WIDE)) if every else last
    model = graph.model({"logits": graph.linear("decoder", decoded, WORDS)})
    return model_table(model, "lstm", "infer", batch_size, view=view)


def against_published(published: Path) -> None:
    """FLOP and bytes beside the paper's tables 4 (analytical) and 3 (hardware counters, with the paper's own error)."""
    import yaml

    figures = yaml.safe_load(published.read_text())
    pagoda = next(part for part in figures.values() if isinstance(part, dict) and "inference_bs1" in part)
    rows: list[tuple[object, ...]] = []
    for name, line in pagoda["inference_bs1"].items():
        table, theirs = table_of(name, 1), 1e6 * line["mop_mb"]
        norms = name in ("resnet50", "mobilenet_v3_large")  # this table has them as layers, the analytical one has not
        by_rules, why = bytes_there(table, norms=norms), reasons(table, norms=norms)
        if name == "lstm":
            flops, by_rules = lstm_there(1, decoded=1)
            why = (
                f"the zoo's is another network (zoo/language.py); FLOP of theirs: {ratio(flops, 1e9 * line['flop_g'])}"
            )
        flops_off = ratio(table.flops, 1e9 * line["flop_g"])
        rows.append((name, flops_off, ratio(table.bytes_moved, theirs), ratio(by_rules, theirs), why))
    columns: tuple[str, ...] = ("network", "FLOP, ours/theirs", "bytes", "bytes by their rules", "what differs")
    show("Pagoda table 4, batch 1", columns, rows)
    against_counters(pagoda["ncu_vs_analytical"])


def against_counters(lines: Mapping[str, Any]) -> None:
    """FLOP and bytes beside what hardware counters saw of an RTX 3090, and the paper's own error there."""
    rows = []
    for name, line in lines.items():
        table = table_of(name, line["batch"])
        fused = operator_table(resolve(f"zoo:{name}"), "infer", line["batch"], fused=True)
        flop, mop = 1e9 * line["ncu_flop_g"], 1e6 * line["ncu_mop_mb"]
        errors = (table.flops / flop - 1, 1e9 * line["est_flop_g"] / flop - 1)
        byte_errors = (table.bytes_moved / mop - 1, 1e6 * line["est_mop_mb"] / mop - 1, fused.bytes_moved / mop - 1)
        rows.append((name, line["batch"], *(f"{error:+.1%}" for error in (*errors, *byte_errors))))
    columns = ("network", "batch", "FLOP: ours", "the paper's", "bytes: ours", "the paper's", "ours, fused")
    show("Pagoda table 3: error against the hardware counters of an RTX 3090", columns, rows)
    print(
        "Counters see what kernels did: padding and transforms of cuDNN's algorithms add FLOP; caches save bytes,"
        "\nand so do kernels that take an activation along: bytes lie between operators one by one and fused."
    )
    bert = eager_of("bert_large", lines["bert_large"]["batch"])
    off = bert.bytes_moved / (1e6 * lines["bert_large"]["ncu_mop_mb"]) - 1
    print(
        f"bert_large: with GELU as five kernels, as older versions of its library run it, our bytes are at {off:+.1%}."
        "\nThe rest is unexplained; products that read a tile again once it left the cache would add to it."
    )
    counters_of_lstm(lines["lstm"])


def counters_of_lstm(line: Mapping[str, float]) -> None:
    """What may have run beneath the counters as LSTM: their network, at some lengths, with one word decoded or all."""
    batch_size = int(line["batch"])
    flops, moved = lstm_beside_counters(batch_size)
    print(
        f"lstm: the zoo's is another network. The paper's estimate is {ratio(flops, 1e9 * line['est_flop_g'])} of FLOP "
        f"and {ratio(moved, 1e6 * line['est_mop_mb'])} of bytes of:"
        "\none decoded word of each sample, LSTM layers of 32 steps of one sample, gates counted four times over."
    )
    rows = []
    for every in (False, True):
        for steps in (1, 8, 32):
            table = their_lstm(steps, batch_size, every=every)
            off = (table.flops / (1e9 * line["ncu_flop_g"]) - 1, table.bytes_moved / (1e6 * line["ncu_mop_mb"]) - 1)
            rows.append((steps, "all" if every else "last", *(f"{error:+.0%}" for error in off)))
    show("Our counts of their LSTM against the counters", ("steps", "words decoded", "FLOP", "bytes"), rows)
    print("No length makes both near: what ran beneath the counters is not told, and the difference is unexplained.")


WORKER = r"""
import json, sys, time, warnings
warnings.simplefilter("ignore")
tool, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
started = time.perf_counter()
if tool == "edgetune":
    from pathlib import Path
    import onnx
    from edgetune.workloads.costs import model_table
    from edgetune.workloads.onnx_file import parse_model
    model = parse_model(Path(path))
    imported = time.perf_counter()
    def count():
        table = model_table(model, "net", "infer", 1)
        return table.macs, sorted({row.op for row in table.rows if row.ledger == "unmodelled"})
elif tool == "onnx-tool":
    import onnx_tool, onnx
    from onnx_tool.node import NODE_REGISTRY
    known = set(NODE_REGISTRY.keys())
    import numpy
    model = onnx.load(path)
    feeds = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        feeds[value.name] = numpy.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    imported = time.perf_counter()
    def count():
        graph = onnx_tool.Model(model).graph
        graph.shape_infer(feeds)
        graph.profile()
        unknown = sorted({node.op_type for node in graph.nodemap.values() if node.op_type + "Node" not in known})
        macs = graph.macs[0] if isinstance(graph.macs, (list, tuple)) else graph.macs
        return int(macs), unknown
else:
    import onnx, torch
    from edgetune.workloads.torch_module import OnnxModule
    from edgetune.workloads.onnx_file import fix_dimensions, input_specs, parse_model
    from pathlib import Path
    torch.set_num_threads(1)
    if tool == "fvcore":
        import logging
        logging.disable(logging.CRITICAL)
        from fvcore.nn import FlopCountAnalysis
    else:
        from torch.utils.flop_counter import FlopCounterMode, flop_registry
        from torch.utils._python_dispatch import TorchDispatchMode
    model = fix_dimensions(parse_model(Path(path)), batch_size=1)
    module = OnnxModule(model).eval()
    arguments = tuple(torch.zeros(shape, dtype=getattr(torch, dtype)) for _, shape, dtype in input_specs(model))
    imported = time.perf_counter()
    def count():
        if tool == "fvcore":
            analysis = FlopCountAnalysis(module, arguments)
            return int(analysis.total()), sorted(analysis.unsupported_ops())
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(*arguments)
        return counter.get_total_flops() // 2, []
times = []
for _ in range(rounds):
    begun = time.perf_counter()
    macs, unknown = count()
    times.append(time.perf_counter() - begun)
if tool == "torch":
    silent = set()
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func._overloadpacket not in flop_registry:
                silent.add(str(func._overloadpacket))
            return func(*args, **(kwargs or {}))
    with torch.no_grad(), Seen():
        module(*arguments)
    unknown = sorted(silent)
count_s = sorted(times)[len(times) // 2]
print(json.dumps({"macs": macs, "unknown": unknown, "count_s": count_s, "import_s": imported - started}))
"""


def environment(folder: Path) -> tuple[Path, str]:
    """Return the Python of the scratch environment, and what could not be installed."""
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    missing = []
    for package in OTHERS:
        command = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", package]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            missing.append(package)
    return python, ", ".join(missing)


def run_worker(python: Path, tool: str, path: Path) -> dict[str, Any] | str:
    """Return what a tool counts, or why it does not."""
    import site

    root = Path(edgetune.__file__).parents[1]
    search = ":".join([str(root), *site.getsitepackages()])
    done = subprocess.run(
        [str(python), "-c", WORKER, tool, str(path), str(ROUNDS)],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": search, "OMP_NUM_THREADS": "1", "PATH": ""},
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it ended without a word"]
        return lines[-1][:90]
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def beside_others(folder: Path) -> None:
    """Count the same networks with every tool: each reads the same ONNX file, torch's as edgetune's module of it."""
    import onnx

    python, missing = environment(folder)
    if missing:
        print(f"\nPyPI gave no {missing}")
    rows = []
    for name in COMPARED:
        path = folder / f"{name}.onnx"
        if not path.exists():
            onnx.save(zoo.with_weights(zoo.weightless(name)), path)
        for tool in ("edgetune", "onnx-tool", "fvcore", "torch"):
            found = run_worker(python, tool, path)
            if isinstance(found, str):
                rows.append((name, tool, "-", "-", "-", "-", found))
                continue
            unknown = found["unknown"]
            listed = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6} more" if len(unknown) > 6 else "")
            seconds = f"{found['count_s']:.3f}", f"{found['import_s']:.2f}"
            rows.append((name, tool, f"{found['macs'] / 1e9:.4f}", len(unknown), *seconds, listed))
    columns = (
        "network",
        "tool",
        "GMAC",
        "unknown",
        "count, s",
        "start, s",
        "counted as nothing, without a word or listed",
    )
    show(f"Other counters, batch 1, median of {ROUNDS}, one thread", columns, rows)
    print(
        "start: imports, reading the file, and for fvcore and torch making the module. These two run the network;"
        "\nfvcore counts a multiply-accumulate as one FLOP, torch as two (halved here)."
    )


def runtime_exports(folder: Path) -> None:
    """Cost the zoo as ONNX Runtime optimises and quantises it: the products must be the same, and nothing unknown."""
    import onnx

    rows = []
    for name in COMPARED:
        original = folder / f"{name}.onnx"
        if not original.exists():
            onnx.save(zoo.with_weights(zoo.weightless(name)), original)
        base = table_of(name, 1)
        for kind, path in runtime_versions(original, name):
            workload = resolve(str(path))
            table, fused = (operator_table(workload, "infer", 1, fused=flag) for flag in (False, True))
            unknown = next(entry for entry in ledger(table) if entry.ledger == "unmodelled")
            ratios = [ratio(table.macs, base.macs), ratio(table.flops, base.flops)]
            ratios += [ratio(one.bytes_moved, base.bytes_moved) for one in (table, fused)]
            rows.append((name, kind, *ratios, ", ".join(unknown.ops) or "none"))
    columns = ("network", "as ONNX Runtime writes it", "MAC", "FLOP", "bytes", "bytes, fused", "unmodelled")
    show("Relative to the network itself", columns, rows)


def runtime_versions(original: Path, name: str) -> list[tuple[str, Path]]:
    """Return the network optimised, and quantised in three ways, made where they are missing."""
    import logging

    import numpy as np
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

    logging.disable(logging.CRITICAL)

    class Once(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            inputs = zoo.NETWORKS[name].inputs
            self.feeds: list[dict[str, Any]] = [{i.name: np.ones((1, *i.shape), i.dtype) for i in inputs}]

        def get_next(self) -> dict[str, Any] | None:
            return self.feeds.pop() if self.feeds else None

    def optimise(path: Path) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 3
        ort.InferenceSession(str(original), options, providers=["CPUExecutionProvider"])

    ways: dict[str, Callable[[Path], object]] = {
        "optimised": optimise,
        "quantised, dynamic": lambda path: quantize_dynamic(original, path),
        "quantised, QDQ": lambda path: quantize_static(original, path, Once(), quant_format=QuantFormat.QDQ),
        "quantised, QOperator": lambda path: quantize_static(
            original, path, Once(), quant_format=QuantFormat.QOperator
        ),
    }
    made = []
    for kind, make in ways.items():
        path = original.with_suffix(f".{kind.replace(', ', '-')}.onnx")
        if not path.exists():
            make(path)
        made.append((kind, path))
    return made


def onnx_cases() -> None:
    """Go through every test case of ONNX's operators: nothing may crash, and what is unmodelled is listed."""
    from onnx.backend.test.case.node import collect_testcases

    ended, unmodelled, refused = Counter[str](), Counter[str](), Counter[str]()
    for case in collect_testcases(None):
        try:
            table = model_table(case.model, case.name, "infer", first_dimension(case.model))
        except InputError as error:
            ended["refused"] += 1
            refused[" ".join(word for word in error.message.split() if "'" not in word)[:60]] += 1
            continue
        entries = {entry.ledger: entry for entry in ledger(table)}
        ended["unmodelled" if entries["unmodelled"].nodes else "costed"] += 1
        unmodelled.update(entries["unmodelled"].ops)
    show("ONNX's own test cases", ("ended", "cases"), ended.most_common())
    show("unmodelled", ("operator", "cases"), unmodelled.most_common())
    show("refused", ("because", "cases"), refused.most_common(8))


def first_dimension(model: Any) -> int:
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and dims[0].dim_value:
            return int(dims[0].dim_value)
    return 1


def speed() -> None:
    """Time reading and costing each network of the zoo from its graph."""
    rows = []
    for name in zoo.NETWORKS:
        times_s = []
        for _ in range(ROUNDS):
            begun_s = time.perf_counter()
            table = model_table(zoo.weightless(name), name, "infer", 1)
            times_s.append(time.perf_counter() - begun_s)
        rows.append((name, len(table.rows), f"{1e3 * sorted(times_s)[len(times_s) // 2]:.1f}"))
    show("Time to build and cost the graph", ("network", "rows", "ms"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with torchvision/ and pagoda/")
    parser.add_argument("--published", type=Path, help="YAML of published figures")
    parser.add_argument("--others", type=Path, help="folder of the scratch environment")
    parser.add_argument("--exports", type=Path, help="folder for the zoo as ONNX Runtime optimises and quantises it")
    parser.add_argument("--cases", action="store_true", help="go through ONNX's own test cases")
    arguments = parser.parse_args()
    if arguments.data:
        against_torchvision(arguments.data)
        against_pagoda(arguments.data)
    if arguments.published:
        against_published(arguments.published)
    speed()
    if arguments.others:
        beside_others(arguments.others)
    if arguments.exports:
        arguments.exports.mkdir(parents=True, exist_ok=True)
        runtime_exports(arguments.exports)
    if arguments.cases:
        onnx_cases()


if __name__ == "__main__":
    main()
