"""A training script that runs one step at a time, and scripts for which that cannot be."""

import sys
import time

import pytest

from edgetune.errors import InputError
from edgetune.workloads import paced_script
from edgetune.workloads.paced_script import PacedScript
from edgetune.workloads.rounds import OptimiserStep, TrainingRounds

SCRIPT = """
import edgetune
for number in range(6):
    with open("steps", "a") as steps:
        steps.write("x")
    edgetune.step()
"""
SEVERAL = """
import torch
linear = torch.nn.Linear(1, 1)
first, second = (torch.optim.SGD(linear.parameters(), lr=0.1) for _ in range(2))
for number in range(100000):
    for optimiser in (first, first, second):
        linear(torch.ones(1, 1)).sum().backward()
        with open("steps", "a") as steps:
            steps.write("x")
        optimiser.step()
"""
ACCUMULATES = SEVERAL.replace("(first, first, second)", "(first,)").replace(
    "        optimiser", "        if number % 2: first"
)
OTHER_PROCESS = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import edgetune; edgetune.step()'])\n"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a script in a folder of its own; it is killed at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paced_script, "keep_descendants", lambda: None)
    started = []

    def starting(text):
        (tmp_path / "train_step.py").write_text(text)
        started.append(PacedScript([sys.executable, "train_step.py"], 1))
        return started[-1]

    yield starting
    for script in started:
        script._process.kill()
        script._process.wait()


def test_a_script_waits_at_each_step_until_the_next_is_asked_for_and_says_that_it_ended(start, tmp_path):
    script, steps = start(SCRIPT), tmp_path / "steps"
    for number in range(1, 7):
        time.sleep(0.05)
        assert steps.read_text() == "x" * number
        if number < 6:
            script.step()
    with pytest.raises(InputError, match="ended after 6 steps"):
        script.step()


def test_a_minibatch_of_several_optimisers_is_a_round(start, tmp_path):
    pytest.importorskip("torch")
    script = start(SEVERAL)
    before = len((tmp_path / "steps").read_text())
    assert before % 3 == 0
    script.step()
    assert len((tmp_path / "steps").read_text()) == before + 3


def test_a_script_that_cannot_be_paused_at_each_minibatch_is_refused(start):
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="2 backward passes") as refused:
        start(ACCUMULATES)
    assert "after each backward pass" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [(OTHER_PROCESS, "in a process that it starts"), ("", "neither called edgetune.step"), ("1 / 0", "exit code 1")],
)
def test_a_script_that_takes_no_steps_of_its_own_is_refused(start, text, words):
    with pytest.raises(InputError, match=words):
        start(text)


CRITIC, GENERATOR = 0, 1


def minibatches(steps):
    """Return the times of all minibatches of a loop, whose steps are ``(optimiser, took, backwards)``, and its note."""
    rounds, found, now = TrainingRounds(), [], 0
    optimisers = len({optimiser for optimiser, _, _ in steps})
    for optimiser, took, backwards in steps:
        now += took
        found += rounds.add(OptimiserStep(now, optimiser, optimisers, backwards))
    return [end - start for start, end in [*found, *rounds.end()]], rounds.note()


def test_every_step_of_one_optimiser_after_one_backward_pass_is_a_minibatch():
    assert minibatches([(0, 10, 1)] * 5) == ([10] * 4, None)


def test_gradients_that_accumulate_are_as_many_minibatches_as_backward_passes():
    found, note = minibatches([(0, 40, 4)] * 3)
    assert found == [10] * 8
    assert note == "a step of the optimiser after 4 backward passes is 4 minibatches"


@pytest.mark.parametrize("first", [[], [(GENERATOR, 30, 1)]])
def test_a_round_is_one_minibatch_whoever_steps_first(first):
    found, note = minibatches([*first, *([(CRITIC, 10, 1)] * 5 + [(GENERATOR, 30, 1)]) * 4])
    assert set(found) == {80}
    assert "2 optimisers step" in note


def test_a_loop_that_never_repeats_itself_counts_the_optimiser_that_steps_least():
    found, _ = minibatches([(CRITIC, 10, 1)] * 20 + [(GENERATOR, 10, 1)] * 2 + [(CRITIC, 10, 1)] * 8)
    assert found
    assert set(found) == {120}


def test_an_optimiser_that_never_steps_is_waited_for_in_vain():
    rounds, found = TrainingRounds(), []
    for step in range(1, 31):
        found += rounds.add(OptimiserStep(step, 0, 2, 1))
    assert len(found) == 29
