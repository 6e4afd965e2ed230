"""Where requests come from: spacing, seeds, traces, lines; and the words for them."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError
from edgetune.limits import limited
from edgetune.serving.arrivals import PROCESSES, ArrivalProcess, ArrivalSpec, parse_arrivals
from edgetune.serving.requests import ClosedLoopArrivals, LineArrivals
from edgetune.stages.schedule.jobs import times_s

NS = 1_000_000_000
MS = 1_000_000


def arrivals_s(spec, seconds, *, begin_s=0.0, seed=0, batch_size=1):
    """Everything that arrives in a run, seconds since it began."""
    begin_ns, end_ns = round(begin_s * NS), round((begin_s + seconds) * NS)
    source = spec.source(begin_ns, end_ns, seed, batch_size)
    return [(time_ns - begin_ns) / NS for time_ns in source.take(end_ns)]


def rates_per_s(found_s, windows, window_s):
    """How many arrive per second in each of so many windows."""
    counts, _ = np.histogram(found_s, bins=windows, range=(0, windows * window_s))
    return (counts / window_s).tolist()


def trace(tmp_path, text):
    (tmp_path / "trace.csv").write_text(text)
    return f"trace:{tmp_path / 'trace.csv'}"


def test_even_requests_begin_one_gap_after_the_run_and_stop_before_its_end():
    assert arrivals_s(parse_arrivals("uniform:4"), 1, begin_s=100) == [0.25, 0.5, 0.75]
    third = arrivals_s(parse_arrivals("uniform:3"), 1e4)
    assert len(third) == 29_999
    assert third[-1] == pytest.approx(29_999 / 3, abs=1e-9), "no drift"


def test_random_requests_are_the_same_for_the_same_seed_however_long_the_run():
    spec = parse_arrivals("poisson:50")
    assert arrivals_s(spec, 100, seed=5) == arrivals_s(spec, 200, seed=5)[: len(arrivals_s(spec, 100, seed=5))]
    assert arrivals_s(spec, 10, seed=5) != arrivals_s(spec, 10, seed=6)
    assert arrivals_s(spec, 10, seed=(5, 0)) != arrivals_s(spec, 10, seed=(5, 1)), "one seed, several tenants"


def test_gaps_of_random_requests_are_exponential():
    gaps = np.diff(arrivals_s(parse_arrivals("poisson:50"), 4000))
    count = len(gaps)  # 200,000: three standard errors are 0.67 %
    assert count == pytest.approx(200_000, rel=0.0067)
    assert gaps.mean() == pytest.approx(0.02, rel=0.0067)
    for gap_s in (0.005, 0.02, 0.06):
        share = np.exp(-50 * gap_s)
        assert (gaps > gap_s).mean() == pytest.approx(share, abs=3 * (share * (1 - share) / count) ** 0.5)


def test_closed_clients_send_when_they_are_answered():
    source = parse_arrivals("closed:3").source(5 * MS, 100 * MS, batch_size=8)
    assert source.next_ns() == 5 * MS
    assert source.take(5 * MS) == [5 * MS] * 3
    assert (source.next_ns(), source.take(50 * MS), source.ended) == (None, [], False)
    source.answered([0, 1], 40 * MS)
    assert source.take(40 * MS) == [40 * MS] * 2
    source.answered([2, 3, 4], 100 * MS)
    assert (source.next_ns(), source.ended) == (None, True)


def test_clients_answered_at_the_end_are_taken_before_the_source_ends():
    source = ClosedLoopArrivals(1, 0, 10 * MS)
    source.take(0)
    source.answered([0], 9 * MS)
    source.answered([], 10 * MS)
    assert not source.ended
    source.take(10 * MS)
    assert source.ended


def test_a_process_is_one_row_of_the_table(monkeypatch):
    def parse(word, rest):
        return ArrivalSpec(word, (float(rest),), spacing=word)

    def dues(seed, deviation):
        return (float(number // 2) for number in itertools.count(2))

    monkeypatch.setitem(PROCESSES, "pairs", ArrivalProcess("pairs", ("pairs:2",), parse, dues))
    assert arrivals_s(parse_arrivals("pairs:2"), 1.6) == [0.5, 0.5, 1, 1, 1.5, 1.5]
    assert list(times_s(Job("j", ("a",), "pairs:2", count=3), {}, seed=(0,))) == [0.5, 0.5, 1]
    assert list(times_s(Job("j", ("a",), "pairs", intensity=0.5, count=2), {"a": 1.0}, seed=(0,))) == [2, 2]
    monkeypatch.delitem(PROCESSES, "pairs")
    with pytest.raises(InputError, match="unknown arrivals 'pairs:2'"):
        parse_arrivals("pairs:2")


# ---- traces


def test_a_trace_of_arrivals_is_repeated_after_one_mean_gap(tmp_path):
    spec = parse_arrivals(trace(tmp_path, "10\n11\n13\n"))
    assert (spec.rate_per_s, spec.duration_s) == (pytest.approx(2 / 3), pytest.approx(4.5))
    assert arrivals_s(spec, 8) == pytest.approx([0, 1, 3, 4.5, 5.5, 7.5])
    assert arrivals_s(spec, 2) == [0, 1], "and cut"


RATES = "rate_per_s\n10\n0\n20\n"


def test_rates_of_windows_evenly_spaced_keep_what_is_due(tmp_path):
    spec = replace(parse_arrivals(trace(tmp_path, RATES) + ":1s"), spacing="uniform")
    assert (spec.rate_per_s, spec.peak_rate_per_s, spec.duration_s) == (10, 20, 3)
    found = arrivals_s(spec, 6.01)
    assert found[:12] == pytest.approx([*(n / 10 for n in range(1, 11)), 2.05, 2.1])
    assert rates_per_s(found, 6, 1.0)[:3] == [9, 1, 19], "the tenth comes at the very end of its window"
    assert len(found) == 60


def test_rates_of_windows_at_random_come_out_in_each_window(tmp_path):
    spec = parse_arrivals(trace(tmp_path, "rate_per_s\n100\n0\n400\n") + ":100s")
    first, none, third = rates_per_s(arrivals_s(spec, 300, seed=2), 3, 100.0)
    assert none == 0
    assert first == pytest.approx(100, abs=3)  # three standard errors: 3 sqrt(rate / 100 s)
    assert third == pytest.approx(400, abs=6)


def test_rates_scale_to_a_mean(tmp_path):
    words = trace(tmp_path, RATES)
    assert parse_arrivals(words + "@30/s").rates_per_s == pytest.approx((30, 0, 60))
    assert parse_arrivals(words + "@60/min").rates_per_s == pytest.approx((1, 0, 2))


@given(
    st.lists(st.floats(0, 50), min_size=1, max_size=5).filter(lambda rates: sum(rates) > 0.1),
    st.floats(0.1, 5),
    st.sampled_from(["uniform", "poisson"]),
)
def test_arrivals_ascend_within_the_run_and_never_come_in_a_window_without_any(rates, window_s, spacing):
    spec = ArrivalSpec("trace", tuple(rates), window_s, spacing)
    found = arrivals_s(spec, 12)
    assert found == sorted(found)
    assert all(0 <= time_s < 12 for time_s in found)
    expected = 12 / window_s / len(rates) * sum(rates) * window_s
    if spacing == "uniform":
        assert abs(len(found) - expected) <= max(rates) * window_s * len(rates) + 2


# ---- lines from outside


@pytest.fixture
def pipe():
    """A pipe: what reads it, and what writes into it; closing it twice is fine."""
    reader, writer = os.pipe()
    open_ends = {reader, writer}

    def close(end):
        if end in open_ends:
            open_ends.discard(end)
            os.close(end)

    yield reader, writer, close
    for end in list(open_ends):
        close(end)


def test_lines_are_requests_that_arrive_when_they_are_read(pipe):
    reader, writer, close = pipe
    lines = LineArrivals(reader)
    assert (lines.fileno(), lines.next_ns(), lines.take(1), lines.ended) == (reader, None, [], False)
    os.write(writer, b"cat.jpg\ndog")
    assert lines.take(2) == [2]
    assert lines.text(0) == "cat.jpg"
    os.write(writer, b".jpg\r\n\nlast")
    assert lines.take(3) == [3, 3]
    assert (lines.text(1), lines.text(2)) == ("dog.jpg", ""), "an empty line is a request too"
    close(writer)
    assert (lines.take(4), lines.text(3), lines.ended) == ([4], "last", True), "without a newline at the end"
    assert (lines.take(5), lines.ended) == ([], True)


def test_lines_written_when_the_run_is_over_are_no_requests(pipe):
    reader, writer, _ = pipe
    lines = LineArrivals(reader, end_ns=10)
    os.write(writer, b"early\nunfinished")
    assert (lines.take(10), lines.text(0), lines.ended) == ([10], "early", True)
    os.write(writer, b"late\n")
    assert (lines.take(11), lines.ended) == ([], True)
    silent = LineArrivals(pipe[0], end_ns=10)
    os.read(reader, 100)
    assert (silent.take(9), silent.ended, silent.take(10), silent.ended) == ([], False, [], True)


def test_lines_are_forgotten_once_answered_and_need_not_be_text(pipe):
    reader, writer, _ = pipe
    lines = LineArrivals(reader)
    os.write(writer, b"a\n\xff\n")
    lines.take(1)
    lines.answered([0], 2)
    assert lines.text(1) == "\ufffd"
    with pytest.raises(KeyError):
        lines.text(0)


def test_no_more_lines_are_taken_than_the_limit_allows_to_wait(pipe):
    reader, writer, close = pipe
    lines = LineArrivals(reader)
    os.write(writer, b"a\nb\nc\nd")
    close(writer)
    with limited(requests=2):
        assert (lines.take(1), lines.full, lines.was_full, lines.take(2)) == ([1, 1], True, True, [])
        lines.answered([0], 3)
        assert (lines.full, lines.take(3), lines.text(2), lines.ended) == (False, [3], "c", False)
        lines.answered([1], 4)
        assert (lines.take(4), lines.text(3), lines.ended) == ([4], "d", True)


# ---- words


@pytest.mark.parametrize(
    ("words", "kind", "rate"),
    [("uniform:60", "uniform", 60), ("poisson:0.5/s", "poisson", 0.5), ("uniform:90/min", "uniform", 1.5)],
)
def test_rates_have_a_unit_or_are_per_second(words, kind, rate):
    spec = parse_arrivals(words)
    assert (spec.kind, spec.rate_per_s, spec.peak_rate_per_s, spec.duration_s) == (kind, rate, rate, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("uniform", "has no rate"),
        ("uniform:", "has no rate"),
        ("poisson:-3", "above zero"),
        ("poisson:0", "above zero"),
        ("uniform:nan", "above zero"),
        ("uniform:60W", "unknown unit"),
        ("uniform:fast", "not a quantity"),
        ("closed:", "number of clients"),
        ("closed:0", "number of clients"),
        ("closed:-1", "number of clients"),
        ("closed:1.5", "number of clients"),
        ("trace", "unknown arrivals"),
        ("bursty:60", "unknown arrivals"),
        ("", "unknown arrivals"),
        ("trace:/no/such/file.csv", "does not exist"),
        ("trace:/no/such/file.csv@60/s", "does not exist"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, message):
    with pytest.raises(InputError, match=message) as raised:
        parse_arrivals(words)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "scale", "message"),
    [
        ("", "", "has no requests"),
        ("arrival_s\n", "", "has no requests"),
        ("arrival_s\n1\n0.5\n", "", "line 3"),
        ("-1\n", "", "neither a time nor a rate"),
        ("rate_per_s\n0\n0\n", "", "every rate is zero"),
        ("rate_per_s\n5\n6\n", "@3-6/s", "does not exist"),
        ("1\n2\n", "@0/s", "above zero"),
        ("1\n2\n", ":10s", "only rates per window have windows"),
        ("rate_per_s\n5\n", ":0s", "the window of a trace"),
        ("1\n2\n", "@1.2.3/s", "unknown unit"),
    ],
)
def test_traces_that_cannot_be_replayed_are_refused(tmp_path, text, scale, message):
    with pytest.raises(InputError, match=message) as raised:
        parse_arrivals(trace(tmp_path, text) + scale)
    assert raised.value.hint


@pytest.mark.parametrize("rates", ["5\n10", "1e-300\n0"])
def test_windows_that_pass_without_requests_are_limited(tmp_path, rates):
    words = trace(tmp_path, f"rate_per_s\n{rates}\n")
    with pytest.raises(InputError, match=r"windows for a request.* the limit windows"):
        parse_arrivals(f"{words}:0.000001ms")
