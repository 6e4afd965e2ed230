"""Results of hyperfine, trtexec, llama-bench, AIPerf and GenAI-Perf as profiles."""

import json
from pathlib import Path

import pytest

from edgetune.artifacts.io import read, read_any, read_profile
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.errors import InputError
from edgetune.stats import summarise


def hyperfine(**changes: object) -> dict[str, object]:
    times = [0.104, 0.101, 0.103, 0.102]
    result = {
        "command": "./infer 8 306", "mean": 0.1025, "stddev": 0.0013, "median": 0.1025, "user": 0.05, "system": 0.01,
        "min": 0.101, "max": 0.104, "times": times, "exit_codes": [0, 0, 0, 0],
        "parameters": {"batch": "8", "gpu_mhz": "306"},
    }  # fmt: skip
    return {"results": [{key: value for key, value in (result | changes).items() if value is not ...}]}


def trtexec(*latencies_ms: float) -> list[dict[str, float]]:
    return [
        {"startEnqMs": 0.1, "endEnqMs": 0.2, "h2dMs": 0.1, "computeMs": 2.0, "d2hMs": 0.1, "latencyMs": each}
        for each in latencies_ms
    ]


def llama_bench(**changes: object) -> dict[str, object]:
    return {
        "build_commit": "8cf427ff", "cpu_info": "Cortex-A78AE", "gpu_info": "Orin",
        "model_filename": "models/qwen.gguf", "model_type": "qwen2 7B Q4_K - Medium",
        "n_threads": 8, "n_prompt": 512, "n_gen": 0, "n_depth": 0,
        "test_time": "2025-04-24T11:58:50Z", "avg_ns": 72135640, "samples_ns": [74601900, 71632900, 71745200],
    } | changes  # fmt: skip


def aiperf(**latency: object) -> dict[str, object]:
    return {
        "request_throughput": {"unit": "requests/sec", "avg": 13.2},
        "request_latency": {"unit": "ms", "avg": 6550.4, "p50": 5.1, "p95": 8.9} | latency,
        "request_count": {"unit": "requests", "avg": 200.0},
        "time_to_first_token": {"unit": "ms", "avg": 2.2, "p50": 2.0, "p95": 3.0},
        "inter_token_latency": {"unit": "ms", "avg": 0.5, "p50": 0.4, "p95": 0.6, "p99": 0.7},
        "output_sequence_length": {"unit": "tokens", "avg": 60.0, "p50": 64.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 812.0},
        "input_config": {"endpoint": {"model_names": ["gpt-oss"]}, "loadgen": {"concurrency": 100}},
    }


def rows_in(tmp_path: Path, document: object, **columns: str) -> tuple[ProfileRow, ...]:
    return read_profile(written(tmp_path, document), columns).rows


def written(tmp_path: Path, document: object) -> str:
    file = tmp_path / "times.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
    return str(file)


def test_hyperfine_parameters_are_batch_size_and_mode(tmp_path: Path) -> None:
    (row,) = rows_in(tmp_path, hyperfine())
    summary = summarise([0.104, 0.101, 0.103, 0.102])
    assert (row.workload, row.batch_size, row.gpu_mhz) == ("./infer {batch} {gpu_mhz}", 8, 306)
    assert (row.minibatch_s, row.minibatch_p95_s, row.minibatches) == (summary.median, summary.p95, 4)
    assert row.times_s == (0.104, 0.101, 0.103, 0.102)
    assert row.power_w is None


def test_a_command_of_several_batch_sizes_is_one_workload(tmp_path: Path) -> None:
    results = [
        {"command": f"./app --batch={size} --threads 8", "median": 0.1, "parameters": {"batch": str(size)}}
        for size in (1, 8)
    ]
    rows = rows_in(tmp_path, {"results": results})
    assert [(row.workload, row.batch_size) for row in rows] == [
        ("./app --batch={batch} --threads 8", 1),
        ("./app --batch={batch} --threads 8", 8),
    ]


def test_hyperfine_without_raw_times_has_its_median(tmp_path: Path) -> None:
    (row,) = rows_in(tmp_path, hyperfine(times=..., parameters=...))
    assert (row.minibatch_s, row.times_s, row.minibatch_ci95_low_s) == (0.1025, None, None)


@pytest.mark.parametrize(("code", "ended"), [(3, "exit code 3"), (None, "a signal")])
def test_a_hyperfine_run_that_failed_is_a_failed_row(tmp_path: Path, code: int | None, ended: str) -> None:
    (row,) = rows_in(tmp_path, hyperfine(exit_codes=[0, code, 0, 0]))
    assert (row.status, row.reason, row.minibatch_s) == ("failed", f"1 of 4 runs ended with {ended}", None)


def test_trtexec_is_one_row_of_latencies(tmp_path: Path) -> None:
    (row,) = rows_in(tmp_path, trtexec(5.1, 5.3, 5.2))
    assert (row.workload, row.task, row.batch_size, row.minibatch_s) == ("times", "infer", 1, 0.0052)
    assert row.times_s == (0.0051, 0.0053, 0.0052)


def test_llama_bench_names_its_tests(tmp_path: Path) -> None:
    tests = [llama_bench(), llama_bench(n_prompt=0, n_gen=128, n_depth=512), llama_bench(n_gen=16)]
    rows = rows_in(tmp_path, tests)
    assert [row.workload for row in rows] == ["qwen pp512", "qwen tg128 @ d512", "qwen pp512+tg16"]
    assert (rows[0].minibatch_s, rows[0].device, rows[0].batch_size) == (0.0717452, "Orin", 1)
    assert [row.tokens_per_s for row in rows] == [None, pytest.approx(128 / 0.0717452), None]


def test_llama_bench_in_lines_is_the_same(tmp_path: Path) -> None:
    tests = [llama_bench(), llama_bench(n_prompt=0, n_gen=128)]
    lines = tmp_path / "lines.json"
    lines.write_text("\n".join(map(json.dumps, tests)) + "\n")
    assert read_profile(str(lines)).rows == rows_in(tmp_path, tests)


def test_llama_bench_settings_that_differ_are_in_the_name(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, [llama_bench(), llama_bench(n_threads=4)])
    assert [row.workload for row in rows] == ["qwen pp512 n_threads=8", "qwen pp512 n_threads=4"]


def test_aiperf_is_one_row_of_request_latency(tmp_path: Path) -> None:
    (row,) = rows_in(tmp_path, aiperf())
    assert (row.workload, row.batch_size) == ("gpt-oss", 100)
    assert (row.minibatch_s, row.minibatch_p95_s, row.minibatches) == (0.0051, 0.0089, 200)
    assert (row.ttft_s, row.ttft_p95_s) == (0.002, 0.003)
    assert (row.token_s, row.token_p95_s, row.token_p99_s) == (0.0004, 0.0006, 0.0007)
    assert (row.prompt_tokens, row.output_tokens, row.tokens_per_s) == (None, 64, 812)
    assert row.times_s is None


def test_genai_perf_nests_its_options_differently(tmp_path: Path) -> None:
    asked = {"model": ["gpt2"], "concurrency": None, "request_rate": 2.0}
    (row,) = rows_in(tmp_path, aiperf() | {"input_config": asked})
    assert (row.workload, row.batch_size, row.ttft_s) == ("gpt2 request rate 2", 1, None)


def test_show_reads_them_as_profiles_and_a_plan_is_none(tmp_path: Path) -> None:
    file = written(tmp_path, trtexec(5.1))
    assert isinstance(read_any(file), Profile)
    with pytest.raises(InputError, match="does not say what it is"):
        read(Plan, file)


BAD = {
    "truncated": (json.dumps(hyperfine())[:200], "is not JSON"),
    "no results": ({"results": []}, "has no results of hyperfine"),
    "negative": (hyperfine(times=[0.1, -0.1]), "has the time -0.1"),
    "NaN": (hyperfine(times=[float("nan")]), "is nan"),
    "no median": (aiperf(p50=None), "has the time None"),
    "unit": (aiperf(unit="fortnight"), "is in 'fortnight'"),
    "knob": (hyperfine(parameters={"gpu_mhz": "fast"}), "the parameter gpu_mhz is 'fast'"),
    "mixed": ([llama_bench(), 3], "lacks its fields"),
    "other list": ([{"name": "conv1", "timeMs": 1.0}], "no results of a known tool"),
    "huge": (hyperfine(times=[1e300]), "minibatch_s"),
}


@pytest.mark.parametrize("case", BAD)
def test_impossible_results_are_refused(tmp_path: Path, case: str) -> None:
    document, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        rows_in(tmp_path, document)
    assert caught.value.hint
