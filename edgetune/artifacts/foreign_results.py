"""Reads the results of other benchmark tools as tables with a profile's columns.

A reader converts the parsed JSON of one tool to rows; ``READERS`` has one for each tool. No tool states the power mode
unless hyperfine varies a knob, so the table has an empty column ``power_mode``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from edgetune.artifacts.formats import load_json
from edgetune.artifacts.mode import KNOBS, SETTINGS
from edgetune.errors import InputError
from edgetune.stats import summarise

_BATCH = ("batch", "batch_size")
_UNITS_S = {"ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": "1", "sec": "1"}
_NO_SETTING = re.compile(
    r"(?:avg|stddev|samples|model|build)_.*|n_prompt|n_gen|n_depth|n_gen_warmup|test_time|cpu_info|gpu_info"
)
"""Keys of llama-bench that are figures, or that the row holds in another column."""

_OF_TOKENS = (
    ("ttft_s", "time_to_first_token", "p50"), ("ttft_p95_s", "time_to_first_token", "p95"),
    ("token_s", "inter_token_latency", "p50"), ("token_p95_s", "inter_token_latency", "p95"),
    ("token_p99_s", "inter_token_latency", "p99"), ("prompt_tokens", "input_sequence_length", "p50"),
    ("output_tokens", "output_sequence_length", "p50"), ("tokens_per_s", "output_token_throughput", "avg"),
)  # fmt: skip
"""Columns of a server's row, with the metric and the statistic of AIPerf and GenAI-Perf."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one tool.

    Args:
        mark: Matches the text of its files, also of truncated ones.
        rows: Returns the rows of a parsed file with a name.
    """

    mark: re.Pattern[str]
    rows: Callable[[Any, str], list[Row]]


def results_tool(text: str) -> str | None:
    """Return the name of the tool in ``READERS`` that wrote a text; ``None`` if none did."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    return next((tool for tool, reader in READERS.items() if reader.mark.search(text)), None)


def results_table(text: str, tool: str, *, name: str) -> Any:
    """Return the results of a tool as a ``pyarrow.Table`` with a profile's columns.

    Args:
        text: The file, for which ``results_tool`` returns ``tool``.
        tool: A name in ``READERS``.
        name: The file, for messages.

    Raises:
        InputError: the file is truncated, has no results, lacks a figure, or a time is not positive and finite.
    """
    import pyarrow as pa

    if tool == "llama-bench" and text.lstrip().startswith("{"):  # -o jsonl
        text = f"[{','.join(filter(str.strip, text.splitlines()))}]"
    document = load_json(text, name=name)
    try:
        rows = READERS[tool].rows(document, name)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError):
        raise _unlike(name, tool) from None
    if not rows:
        raise InputError(f"{name} has no results of {tool}", f"run {tool} again")
    columns = dict.fromkeys((*(key for row in rows for key in row), "power_mode"))
    kinds = {"minibatch_s": pa.float64(), "power_mode": pa.string()}
    try:
        return pa.table({each: pa.array([row.get(each) for row in rows], kinds.get(each)) for each in columns})
    except (pa.ArrowException, OverflowError, UnicodeError):
        raise _unlike(name, tool) from None


def _unlike(name: str, tool: str) -> InputError:
    return InputError(f"{name} looks like results of {tool}, but lacks its fields", f"export it with {tool} again")


def _row(workload: str, **figures: Any) -> Row:
    return {"workload": workload, "task": "infer", "batch_size": 1, **figures}


def _timed(times_s: Sequence[float]) -> Row:
    """Return the columns of raw times."""
    summary = summarise(times_s)
    return {
        "minibatch_s": summary.median, "minibatch_p95_s": summary.p95, "minibatch_ci95_low_s": summary.low,
        "minibatch_ci95_high_s": summary.high, "minibatches": summary.count, "times_s": list(times_s),
    }  # fmt: skip


def _seconds(values: Sequence[Any], unit: str, *, where: str) -> list[float]:
    """Return times in seconds; ``unit`` is a key of ``_UNITS_S``.

    Raises:
        InputError: there are none, or one is not a positive number.
    """
    if not values:
        raise InputError(f"{where} has no times", "leave this result out, or measure it again")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise InputError(f"{where} has the time {value!r}", "a time must be a positive number; measure it again")
    times = Decimal(_UNITS_S[unit])  # decimal: 5.1 ms is 0.0051 s, not 0.0050999999999999995 s
    return [float(Decimal(str(value)) * times) for value in values]


def _hyperfine(document: Any, name: str) -> list[Row]:
    """Return a row per command of ``hyperfine --export-json``: an object with ``results``, times in s.

    Parameters that are knobs become the mode, ``batch`` and ``batch_size`` the batch size. A run with a non-zero
    exit code, or ended by a signal (null), makes the row ``failed``.

    Source: ``BenchmarkResult`` in src/benchmark/benchmark_result.rs of sharkdp/hyperfine.
    """
    rows = []
    for place, result in enumerate(document["results"]):
        where, command = f"{name}: results.{place}", _template(result, document["results"])
        row: Row = {}
        for key, value in (result.get("parameters") or {}).items():
            ours = "batch_size" if key in _BATCH else key
            if ours in SETTINGS or ours == "batch_size":
                row[ours] = _number(value, key, where=where) if ours in KNOBS or ours == "batch_size" else value
            elif value not in command:
                command += f" {key}={value}"
        codes = result.get("exit_codes") or []
        if bad := [code for code in codes if code != 0]:
            ended = "a signal" if bad[0] is None else f"exit code {bad[0]}"
            row |= {"status": "failed", "reason": f"{len(bad)} of {len(codes)} runs ended with {ended}"}
        elif "times" in result:
            row |= {"status": "ok"} | _timed(_seconds(result["times"], "s", where=where))
        else:
            row |= {"status": "ok", "minibatch_s": _seconds([result["median"]], "s", where=where)[0]}
        rows.append(_row(command, **{"minibatch_s": None, **row}))
    return rows


def _template(result: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return a command with ``{NAME}`` for the values of settings, so that one command is one workload.

    Only words that differ between the commands change: in ``--batch 8 --threads 8`` the threads remain.
    """
    settings = {k: v for k, v in (result.get("parameters") or {}).items() if k in SETTINGS or k in _BATCH}
    words = result["command"].split(" ")
    others = [each["command"].split(" ") for each in results if each is not result]
    others = [each for each in others if len(each) == len(words)]
    for place, word in enumerate(words):
        if not others or any(each[place] != word for each in others):
            for key, value in settings.items():
                words[place] = re.sub(rf"(?<![\w.{{]){re.escape(value)}(?![\w.}}])", f"{{{key}}}", words[place])
    return " ".join(words)


def _number(value: str, key: str, *, where: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{where}: the parameter {key} is {value!r}", "a knob or batch size is a number") from None


def _trtexec(document: Any, name: str) -> list[Row]:
    """Return the row of ``trtexec --exportTimes``: a list with an object per inference, ``latencyMs`` in ms.

    The latency is the sum of both copies and the computation. The file states neither engine nor batch size.

    Source: ``exportJSONTrace`` in samples/common/sampleReporting.cpp of NVIDIA/TensorRT.
    """
    times_s = _seconds([each["latencyMs"] for each in document], "ms", where=name)
    return [_row(PurePath(name).stem, **_timed(times_s))]


def _llama_bench(document: Any, name: str) -> list[Row]:
    """Return a row per test of ``llama-bench -o json`` or ``jsonl``: objects, ``samples_ns`` a time per repetition, ns.

    A test processes ``n_prompt`` tokens and generates ``n_gen``; it is named as in llama-bench's own tables, e.g.
    ``pp512``. Settings that differ between tests are part of the name.

    Source: ``struct test`` and ``json_printer`` in tools/llama-bench/llama-bench.cpp of ggml-org/llama.cpp.
    """
    keys = [key for key in (document[0] if document else ()) if not _NO_SETTING.fullmatch(key)]
    varied = [key for key in keys if any(test.get(key) != document[0][key] for test in document)]
    rows = []
    for place, test in enumerate(document):
        parts = [f"{word}{count}" for word, count in (("pp", test["n_prompt"]), ("tg", test["n_gen"])) if count]
        depth = [f"@ d{test['n_depth']}"] if test.get("n_depth") else []
        settings = [f"{key}={test.get(key)}" for key in varied]
        workload = " ".join([PurePath(test["model_filename"]).stem, "+".join(parts), *depth, *settings])
        times_s = _seconds(test["samples_ns"], "ns", where=f"{name}: {place}")
        figures = _timed(times_s)
        if test["n_gen"] and not test["n_prompt"]:
            token_s = figures["minibatch_s"] / test["n_gen"]
            figures |= {"token_s": token_s, "tokens_per_s": 1 / token_s, "output_tokens": float(test["n_gen"])}
        device = test.get("gpu_info") or test.get("cpu_info") or None
        rows.append(_row(workload, device=device, started=test.get("test_time"), **figures))
    return rows


def _aiperf(document: Any, name: str) -> list[Row]:
    """Return the row of AIPerf's profile_export_aiperf.json, or of GenAI-Perf's profile_export_genai_perf.json.

    The minibatch is a request of each of the streams at once, as of a server that edgetune measures: the batch size
    is the concurrency. A request rate is part of the workload's name; its requests per second are no function of the
    latency, so that its row has no figures of a server.

    Sources: https://docs.nvidia.com/aiperf/reference/json-export-schema; docs/tutorials/working-with-profile-exports.md
    of ai-dynamo/aiperf; genai-perf/genai_perf/export_data/json_exporter.py of triton-inference-server/perf_analyzer.
    """
    latency, asked = document["request_latency"], document.get("input_config") or {}
    unit = latency["unit"]
    if unit not in _UNITS_S:
        raise InputError(f"{name}: request_latency is in {unit!r}", f"known: {', '.join(_UNITS_S)}")
    where = f"{name}: request_latency"
    models = next(_values(asked, ("model_names", "model", "model_name")), None) or PurePath(name).stem
    asked_for = {
        key: next((each for each in _values(asked, (key,)) if isinstance(each, (int, float))), None)
        for key in ("concurrency", "request_rate")
    }
    rate, at_once = asked_for["request_rate"], asked_for["concurrency"]
    workload = str(models if isinstance(models, str) else models[0]) + (f" request rate {rate:g}" if rate else "")
    figures: Row = {"minibatch_s": _seconds([latency["p50"]], unit, where=where)[0]}
    if latency.get("p95") is not None:
        figures["minibatch_p95_s"] = _seconds([latency["p95"]], unit, where=where)[0]
    if (count := (document.get("request_count") or {}).get("avg")) is not None:
        figures["minibatches"] = int(count)
    for column, metric, statistic in _OF_TOKENS if at_once and not rate else ():
        told = document.get(metric) or {}
        if (value := told.get(statistic)) is not None:
            timed = told["unit"] in _UNITS_S
            figures[column] = _seconds([value], told["unit"], where=f"{name}: {metric}")[0] if timed else float(value)
    return [_row(workload, **{"batch_size": int(at_once or 1), **figures})]


def _values(document: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield the values of keys at any depth of nested objects: versions of a tool nest its options differently."""
    if isinstance(document, Mapping):
        yield from (document[key] for key in keys if document.get(key) is not None)
        for value in document.values():
            yield from _values(value, keys)


READERS: Mapping[str, Reader] = {
    "hyperfine": Reader(re.compile(r'\A\s*\{\s*"results"\s*:\s*\[\s*(?:\]|\{\s*"command"\s*:)'), _hyperfine),
    "trtexec": Reader(re.compile(r'\A\s*\[\s*\{\s*"startEnqMs"\s*:'), _trtexec),
    "llama-bench": Reader(re.compile(r'\A\s*\[?\s*\{[^{}]*"(?:samples_ns|n_gen|model_filename)"\s*:'), _llama_bench),
    "AIPerf": Reader(re.compile(r'\A\s*\{.*"request_latency"\s*:\s*\{\s*"', re.DOTALL), _aiperf),
}
"""The readers by tool, as messages name it."""
