"""What the fuzzer once found stays found, and the fuzzer itself: what it covers and what it notices."""

import sys
import time
from pathlib import Path
from random import Random

import pytest
from fuzzing import execution
from fuzzing.commands import commands
from fuzzing.corpus import cases
from fuzzing.damage import damaged
from fuzzing.execution import execute, execute_all
from fuzzing.inputs import Input, make_input, pairs, templates
from fuzzing.seeds import seeds

CASES = cases()
SEEDS = seeds()
"""Made while tests are collected: later this process has threads, with which it cannot be forked."""


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    """How every input of the corpus ends, all run in one process unless one ends it."""
    folder = tmp_path_factory.mktemp("corpus")
    return dict(zip(CASES, execute_all(list(CASES.values()), folder / "run"), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_once_failed_is_answered_or_refused_in_two_lines(name, endings):
    assert endings[name].faults == ()
    assert not endings[name].escapes


def test_every_command_is_paired_with_every_kind_of_file_in_every_place_that_may_name_one():
    found = {(pair.command.name, pair.slot and pair.slot.name, pair.kind) for pair in pairs()}
    for command in commands():
        for slot in command.slots:
            assert {kind for name, place, kind in found if (name, place) == (command.name, slot.name)} == set(seeds())
    assert {name for name, _, _ in found} == {command.name for command in commands()}


def test_known_command_lines_are_of_commands_that_there_are():
    assert set(templates()) <= {command.name for command in commands()} - {""}


def test_there_is_a_seed_of_every_artifact_in_every_format():
    from edgetune.artifacts.kinds import ENDINGS, KINDS

    wanted = {f"{kind}{ending}" for kind in KINDS for ending in ENDINGS[kind] if ending != ".yml"}
    assert wanted <= set(seeds())


def test_an_input_is_a_function_of_seed_and_number():
    numbers = (0, 50, 999, len(pairs()), len(pairs()) + 5, len(pairs()) + 999)
    once = [make_input(3, number) for number in numbers]
    assert once == [make_input(3, number) for number in numbers]
    assert once != [make_input(4, number) for number in numbers]


@pytest.mark.parametrize("shape", sorted({seed.shape for seed in SEEDS.values()}))
def test_files_of_every_shape_are_damaged(shape):
    seed = next(seed for seed in seeds().values() if seed.shape == shape)
    assert len({repr(damaged(Random(number), seed)) for number in range(10)} - {repr(seed.files)}) > 5


def _ended(monkeypatch, tmp_path, run, *, cpu_s=1.0, **files):
    monkeypatch.setattr("edgetune.cli.main.run", run)
    monkeypatch.setattr(execution, "CPU_S", cpu_s)
    return execute(Input("merge", (), ("merge", "a.csv"), {"a.csv": b"x", **files}), tmp_path / "run").faults


def test_an_exit_code_of_one_and_a_traceback_are_noticed(monkeypatch, tmp_path):
    def run(argv):
        print("Traceback (most recent call last)", file=sys.stderr)
        return 1

    assert _ended(monkeypatch, tmp_path, run) == ("exit 1: ", "traceback: on standard error")


def test_an_error_without_a_hint_is_noticed(monkeypatch, tmp_path):
    def run(argv):
        print("error: x", file=sys.stderr)
        return 2

    assert _ended(monkeypatch, tmp_path, run)[0].startswith("two lines: exit 2 with 1 errors")


def test_work_without_end_is_ended(monkeypatch, tmp_path):
    def run(argv):
        while time.monotonic():
            pass

    assert [fault.partition(" in")[0] for fault in _ended(monkeypatch, tmp_path, run)] == [
        "killed by signal 24", "CPU: over 1 s",
    ]  # fmt: skip


def test_memory_is_measured(monkeypatch, tmp_path):
    def run(argv):
        return len(bytearray(b"x") * 600_000_000) * 0

    assert _ended(monkeypatch, tmp_path, run, cpu_s=30.0) == ("memory: over 500 MB",)


def test_a_file_that_is_written_elsewhere_and_an_input_that_changes_are_noticed(monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"

    def run(argv):
        elsewhere.write_text("x")
        Path("a.csv").write_text("y")
        return 0

    changed, outside = _ended(monkeypatch, tmp_path, run)
    assert changed == "input changed: other content: merge"
    assert outside.startswith("writes outside: open")
