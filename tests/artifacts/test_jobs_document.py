"""Jobs read back as they were written, and what makes no sense is refused in words that name it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.jobs import Job, Jobs, NetworkSource
from edgetune.errors import InputError
from edgetune.units import MOST_S

MINIMAL = """kind: jobs
version: 1
networks: {faces: 'zoo:alexnet', age: models/age.onnx}
jobs:
- {name: photos, networks: [faces, age]}
"""


def read(text: str) -> Jobs:
    return io.from_bytes(text.encode(), kind="jobs", name="jobs.yaml")


def refused(text: str) -> str:
    with pytest.raises(InputError) as found:
        read(text)
    return f"{found.value.message}; {found.value.hint}"


def test_what_is_not_said_has_a_default() -> None:
    jobs = read(MINIMAL)
    assert [network.reference for network in jobs.networks] == ["zoo:alexnet", "models/age.onnx"]
    assert jobs.jobs == (Job("photos", ("faces", "age"), "batch"),)
    assert (jobs.memory_bytes, jobs.workers, jobs.policy, jobs.seed) == (None, 2, "reuse", 0)


def test_quantities_have_units() -> None:
    jobs = read(MINIMAL.replace("networks: {", "memory: 1.5MiB\nnetworks: {").replace("age]}", "age], deadline: 80ms}"))
    assert jobs.memory_bytes == 1.5 * 2**20
    assert jobs.jobs[0].deadline_s == 0.08


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("age: models", "faces: models", "'faces' is given twice"),
        ("[faces, age]", "[faces, agee]", "'agee'; did you mean age?"),
        ("[faces, age]", "[faces, faces]", "names faces twice"),
        ("[faces, age]", "[]", "photos names no networks"),
        ("age]}", "age], after: [photo]}", "waits for an unknown job, 'photo'; did you mean photos?"),
        ("age]}", "age], after: [photos]}", "jobs wait for each other: photos is after photos"),
        ("age]}", "age]}\n- {name: photos, networks: [age]}", "two jobs are called photos"),
        ("age]}", "age], arrivals: [0s, 2s, 1s]}", "an arrival at 1 s follows one at 2 s"),
        ("age]}", "age], arrivals: []}", "arrivals is an empty list"),
        ("age]}", "age], arrivals: [1s], count: 2}", "count is 2, and 1 arrivals are listed"),
        ("age]}", "age], deadline: 80}", "deadline is 80"),
        ("age]}", "age], deadline: 80 parsecs}", "unknown unit 'parsecs'"),
        ("age]}", "age], deadline: -1s}", "above zero"),
        ("age]}", "age], intensity: 0.0}", "intensity is 0"),
        ("age]}", "age], intensity: .inf}", "intensity is inf"),
        ("age]}", "age], count: 0}", "count is 0"),
        ("age]}", "age], choose: some}", "'some'"),
        ("age]}", "age], dedline: 1s}", "did you mean deadline?"),
        ("jobs:\n", "workers: 0\njobs:\n", "workers is 0; at least one"),
        ("jobs:\n", "workers: two\njobs:\n", "workers is 'two'"),
        ("jobs:\n", "seed: -1\njobs:\n", "seed is -1"),
        ("jobs:\n", "memory: 512\njobs:\n", "memory is 512"),
        ("jobs:\n", "memory: 512MBit\njobs:\n", "unknown unit 'MBit'"),
        ("jobs:\n", "memmory: 512MiB\njobs:\n", "did you mean memory?"),
        ("{faces: 'zoo:alexnet', age: models/age.onnx}", "{}", "names no networks"),
        ("models/age.onnx", "{costs: c.parquet, netwrok: n}", "did you mean network?"),
        ("models/age.onnx", "{inputs: x.npz}", "network age has neither a model nor costs"),
        ("models/age.onnx", "{model: m.onnx, costs: c.parquet}", "network age has both a model and costs"),
        ("models/age.onnx", "{model: m.onnx, network: n}", "leave network out"),
        ("models/age.onnx", "{costs: c.parquet, handler: h.py}", "is simulated only"),
        ("models/age.onnx", "7", "networks.age"),
        ("jobs:\n- {name: photos, networks: [faces, age]}", "jobs: []", "names no jobs"),
        ("version: 1", "version: 2", "newer edgetune"),
        ("{faces:", "{no: x.onnx, faces:", "the key 'no' is no text in YAML: quote it"),
        ("name: photos", "name: no", "jobs.0.name is False; jobs.0.name is a text: quote a name such as 'no'"),
        ("[faces, age]", "[faces, 2024]", "jobs.0.networks.1 is 2024; jobs.0.networks.1 is a text: quote a name"),
        ("name: photos", "name: ~", "jobs.0.name is None; jobs.0.name is a text: quote a name"),
    ],
)
def test_what_makes_no_sense_is_named(old: str, new: str, words: str) -> None:
    assert old in MINIMAL
    assert words in refused(MINIMAL.replace(old, new, 1))


def test_a_circle_of_jobs_is_told_in_full() -> None:
    jobs = "".join(f"- {{name: {name}, networks: [faces], after: [{after}]}}\n" for name, after in ("ab", "bc", "ca"))
    words = refused(MINIMAL + jobs)
    assert "jobs wait for each other" in words
    assert all(f"{name} is after" in words for name in "abc")


_name = st.text("abcdef-_ :[]{}#'\"é", min_size=1, max_size=8)
_positive = st.floats(1e-9, MOST_S)


@st.composite
def _jobs(draw: st.DrawFn) -> Jobs:
    known = draw(st.lists(_name, min_size=1, max_size=3, unique=True))
    sources = [
        draw(
            st.builds(NetworkSource, st.just(name), _name, inputs=st.none() | _name, handler=st.none() | _name)
            | st.builds(NetworkSource, st.just(name), costs=_name, costs_name=_name)
        )
        for name in known
    ]
    jobs: list[Job] = []
    for name in draw(st.lists(_name, min_size=1, max_size=3, unique=True)):
        times_s = tuple(sorted(draw(st.lists(st.floats(0, 1e6).filter(lambda t: t == 0 or t > 1e-9), max_size=3))))
        jobs.append(
            Job(
                name,
                tuple(draw(st.lists(st.sampled_from(known), min_size=1, unique=True))),
                "list" if times_s else draw(_name),
                times_s,
                draw(st.none() | _positive),
                None if times_s else draw(st.none() | st.integers(1, 10**6)),
                draw(st.sampled_from(["all", "uniform"])),
                draw(st.none() | _positive),
                tuple(draw(st.lists(st.sampled_from([job.name for job in jobs] or [""]), unique=True)) if jobs else ()),
            )
        )
    header = Header("jobs", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0")
    memory = draw(st.none() | st.integers(1, 2**45))
    return Jobs(
        header, tuple(sources), tuple(jobs), memory, draw(st.integers(1, 64)), draw(_name), draw(st.integers(0))
    )


@given(_jobs())
@settings(max_examples=60, deadline=None)
def test_what_is_written_reads_back(jobs: Jobs) -> None:
    assert io.from_bytes(jobs.to_bytes(), kind="jobs", name="it") == jobs
