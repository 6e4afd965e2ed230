"""Jobs become requests: when, for which network, due when, after which."""

import itertools
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune import limits
from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError
from edgetune.stages.schedule.jobs import requests_of
from edgetune.stages.schedule.requests import Request, arrived_at, check_requests
from edgetune.units import NS

SERVICE_S = {"a": 1.0, "b": 3.0}


def made(*jobs: Job, seed: int = 0, until_s: float | None = None) -> tuple[Request, ...]:
    requests = requests_of(jobs, SERVICE_S, seed=seed, until_s=until_s)
    check_requests(requests, SERVICE_S)
    return requests


def times_s(requests: tuple[Request, ...], network: str = "a") -> list[float]:
    return [each.arrival_ns / NS for each in requests if each.network == network]


def test_a_batch_comes_at_once_and_once() -> None:
    found = made(Job("j", ("a", "b"), deadline_s=2.0))
    assert [(each.number, each.network, each.arrival_ns, each.deadline_ns) for each in found] == [
        (0, "a", 0, 2 * NS),
        (1, "b", 0, 2 * NS),
    ]
    assert times_s(made(Job("j", ("a",), count=3))) == [0, 0, 0]


def test_closed_arrivals_follow_those_before() -> None:
    found = made(Job("j", ("a", "b"), "closed", count=3), Job("k", ("a",), "closed:2", count=4))
    assert [(each.job, each.after) for each in found] == [
        ("j", ()), ("j", ()), ("j", (0, 1)), ("j", (0, 1)), ("j", (2, 3)), ("j", (2, 3)),
        ("k", ()), ("k", ()), ("k", (6,)), ("k", (7,)),
    ]  # fmt: skip
    assert {each.arrival_ns for each in found} == {0}
    assert all(each.follows for each in found)
    with pytest.raises(InputError, match="job j has no end"):
        made(Job("j", ("a",), "closed"))
    with pytest.raises(InputError, match="has an intensity"):
        made(Job("j", ("a",), "closed", intensity=0.8, count=2))


def test_a_request_that_follows_arrives_when_the_last_before_it_is_answered() -> None:
    first, second = made(Job("j", ("a",), "closed", count=2, deadline_s=3.0))
    assert arrived_at(first, 0) == first
    assert arrived_at(second, 5 * NS) == replace(second, arrival_ns=5 * NS, deadline_ns=8 * NS)
    plain = Request(1, "a", 0, 7, (0,))
    assert arrived_at(plain, 5 * NS) == plain


def test_the_gap_of_an_intensity_is_for_the_mean_number_of_networks() -> None:
    some = made(Job("j", ("a", "b"), "periodic", intensity=0.5, count=2, choose="uniform:1-2"))
    assert max(times_s(some) + times_s(some, "b")) == (1.0 + 3.0) * 1.5 / 2 / 0.5


def test_an_intensity_is_a_share_of_what_an_arrival_takes_alone() -> None:
    every = made(Job("j", ("a", "b"), "periodic", intensity=0.8, count=2))
    assert times_s(every) == [0, (1.0 + 3.0) / 0.8]
    one = made(Job("j", ("a", "b"), "periodic", intensity=0.5, count=3, choose="uniform"))
    assert sorted(each.arrival_ns / NS for each in one) == [0, 2.0 / 0.5, 4.0 / 0.5]


def test_normal_gaps_have_their_mean_and_deviation_and_never_go_back() -> None:
    found = times_s(made(Job("j", ("a",), "normal:2s,0.3s", count=4000)))
    gaps = [after - before for before, after in itertools.pairwise(found)]
    assert statistics.mean(gaps) == pytest.approx(2.0, abs=5 * 0.3 / 4000**0.5)
    assert statistics.stdev(gaps) == pytest.approx(0.3, rel=0.06)
    by_default = times_s(made(Job("j", ("a",), "normal:2s", count=4000)))
    assert statistics.stdev(b - a for a, b in itertools.pairwise(by_default)) == pytest.approx(0.5, rel=0.06)
    wild = times_s(made(Job("j", ("a",), "normal:1s,5s", count=500)))
    assert all(after >= before for before, after in itertools.pairwise(wild))


def test_a_trace_is_played_once_or_as_often_as_a_count_takes(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time_s\n10\n10.5\n12\n")
    assert times_s(made(Job("j", ("a",), f"trace:{file}"))) == [0, 0.5, 2]
    assert times_s(made(Job("j", ("a",), f"trace:{file}", count=5))) == [0, 0.5, 2, 3, 3.5]
    assert times_s(made(Job("j", ("a",), f"trace:{file}@2/s"))) == [0, 0.25, 1.0]
    file.write_text("rate_per_s\n1\n0\n")
    windows = times_s(made(Job("j", ("a",), f"trace:{file}:100s")))
    assert 60 < len(windows) < 140
    assert max(windows) < 100
    file.write_text("time_s\n2\n1\n")
    with pytest.raises(InputError, match="follows one at 2"):
        made(Job("j", ("a",), f"trace:{file}"))


def test_the_same_seed_gives_the_same_requests_and_another_gives_others() -> None:
    jobs = (Job("j", ("a", "b"), "normal:1s", count=50, choose="uniform"), Job("k", ("a",), "normal:1s", count=50))
    assert made(*jobs, seed=3) == made(*jobs, seed=3)
    assert made(*jobs, seed=3) != made(*jobs, seed=4)
    of_j, of_k = ([each.arrival_ns for each in made(*jobs) if each.job == name] for name in "jk")
    assert of_j != of_k


def test_a_job_waits_for_all_requests_of_those_it_is_after() -> None:
    found = made(Job("late", ("a",), after=("j", "k")), Job("j", ("a", "b"), count=2), Job("k", ("b",), (9.0,)))
    late = next(each for each in found if each.job == "late")
    assert set(late.after) == {each.number for each in found if each.job in "jk"}
    assert all(not each.after for each in found if each.job != "late")


@pytest.mark.parametrize("arrivals", ["batch", "periodic:1ms"])
def test_a_count_that_is_a_slip_of_the_pen_is_refused_before_it_fills_memory(arrivals: str) -> None:
    with limits.limited(requests=1000):
        assert len(made(Job("j", ("a",), arrivals, count=1000))) == 1000
        with pytest.raises(InputError, match=r"job j has 1e\+30 requests, more than the limit requests"):
            made(Job("j", ("a",), arrivals, count=10**30))
        with pytest.raises(InputError, match=r"with job k, has more requests than the limit requests allows \(1,000"):
            made(Job("j", ("a",), count=600), Job("k", ("b",), arrivals, count=600))


def test_requests_that_all_wait_for_all_others_are_refused() -> None:
    with limits.limited(waits=99), pytest.raises(InputError, match="has 100 pairs of a request"):
        made(Job("j", ("a",), count=10), Job("k", ("b",), count=10, after=("j",)))


def test_nothing_arrives_after_the_end() -> None:
    assert times_s(made(Job("j", ("a",), "periodic:1s"), until_s=2.5)) == [0, 1, 2]
    assert times_s(made(Job("j", ("a",), "periodic:1s", count=2), until_s=2.5)) == [0, 1]
    assert made(Job("j", ("a",), (3.0,)), until_s=2.5) == ()


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job("j", ("a",), "sometimes"), "unknown arrivals 'sometimes'"),
        (Job("j", ("a",), "live"), "unknown arrivals 'live'"),
        (Job("j", ("a",), "periodic", count=1), "'periodic' has no gap"),
        (Job("j", ("a",), "normal:2s", intensity=1.0, count=1), "both a gap, 2s, and an intensity"),
        (Job("j", ("a",), "poisson:fast", count=1), "rate of arrivals"),
        (Job("j", ("a",), "trace:no.csv", intensity=1.0), "no mean gap"),
        (Job("j", ("a",), intensity=1.0), "no mean gap"),
        (Job("j", ("a",), "periodic:2s"), "job j has no end"),
    ],
)
def test_arrivals_that_make_no_sense_are_named(job: Job, words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(job)


def test_an_intensity_without_measured_durations_is_refused() -> None:
    with pytest.raises(InputError, match="the durations of a are unknown") as found:
        requests_of([Job("j", ("a",), "normal", intensity=1.0, count=1)], {"a": 0.0}, seed=0)
    assert "edgetune schedule profile" in found.value.hint
