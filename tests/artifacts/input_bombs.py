"""Small inputs that would fill memory or time: what the tests of the readers and of their peak share."""

import io
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

_POINT = {"workload": "net", "task": "infer", "batch_size": 1, "gpu_mhz": 300.0, "minibatch_s": 0.1}
_JOBS = "kind: jobs\nversion: 1\nnetworks: {a: zoo:lstm}\njobs: "
_TASKS = "kind: kernel_tasks\nversion: 1\nnetworks: {a: {mdtb: alexnet}}\ntasks: "


def _parquet(columns: dict[str, object], metadata: dict[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue()


def _repeated(value: object, times: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), times), pa.array([value]))


def _texts() -> bytes:
    return _parquet(
        {**{key: [value] * 2000 for key, value in _POINT.items()}, "workload": _repeated("x" * 10**6, 2000)}
    )


def _rows() -> bytes:
    rows = 2_000_000
    return _parquet({key: pa.repeat(pa.scalar(value), rows) for key, value in _POINT.items()})


def _list() -> bytes:
    values = pa.repeat(pa.scalar(0.1), 10_000_000)
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return _parquet({**{key: [value] for key, value in _POINT.items()}, "minibatch_times_s": lists})


def _header(text: str) -> bytes:
    return _parquet({"a": [1]}, {"edgetune": text})


def _wide_json() -> bytes:
    return json.dumps({"rows": [{str(number): 1} for number in range(20_000)]}).encode()


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "rows of a Parquet file": (_rows, "10,000,000 cells, more than the limit table_cells"),
    "a text a thousand times": (_texts, "bytes after expansion, more than the limit table_bytes"),
    "one long list": (_list, "cells, more than the limit table_cells"),
    "columns of a Parquet file": (lambda: _parquet({f"c{n}": [1] for n in range(2_500)}), "limit table_columns"),
    "a deep header": (lambda: _header('{"kind":"run","x":' + "[" * 10**5 + "]" * 10**5 + "}"), "nested too deeply"),
    "a header that is not finite": (lambda: _header('{"kind": "run", "version": NaN}'), "version is nan"),
    "columns of a CSV file": (lambda: b",".join(b"c%d" % n for n in range(10**5)) + b"\n1\n", "limit table_columns"),
    "delimiters": (lambda: b"," * 900_000 + b"\n1\n", "limit table_columns"),
    "a column for each row of JSON": (_wide_json, "limit table_columns"),
    "deep rows of JSON": (lambda: b'{"rows":[{"a":' + b"[" * 900 + b"]" * 900 + b"}]}", "limit document_depth"),
    "deep JSON": (lambda: b'{"rows":' + b"[" * 900_000, "limit document_depth"),
    "NaN in JSON": (lambda: b'{"rows":[{"a": NaN}]}', "rows.0.a is nan"),
    "flow list": (lambda: b"kind: plan\na: [" + b"1," * 450_000 + b"]", "limit document_nodes"),
    "block list": (lambda: b"kind: plan\na:\n" + b"-\n" * 450_000, "limit document_nodes"),
    "nested flow": (lambda: b"kind: plan\na: " + b"[" * 900_000, "limit document_depth"),
    "nested blocks": (lambda: b"kind: plan\na:\n" + b"- " * 450_000, "limit document_depth"),
    "merge keys": (lambda: b"kind: plan\nversion: 1\n<<: [" + b"{a: 1}," * 1000 + b"]\n", "unknown key '<<'"),
    "aliases": (lambda: b"kind: plan\na: &a [x, x]\nb: [*a, *a]\n", "aliases are not used here"),
    "pairs": (lambda: b"kind: plan\na: !!pairs [" + b"a: 1," * 100_000 + b"]", "tags are not used here"),
    "an integer of many digits": (lambda: b"kind: plan\nversion: " + b"1" * 900_000, "no valid version"),
    "sexagesimals": (lambda: b"kind: plan\nversion: 1" + b":10" * 300_000, "no valid version"),
    "jobs": ((_JOBS + "[" + "{name: x, networks: [a]}," * 1001 + "]").encode, "limit jobs"),
    "tasks": ((_TASKS + "[" + "{name: x, network: a}," * 1001 + "]").encode, "limit jobs"),
}  # fmt: skip
"""By what they are: the file, and what its refusal says."""
