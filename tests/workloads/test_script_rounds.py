"""Minibatches of a training loop from the steps of its optimisers and its backward passes."""

from itertools import pairwise

import pytest

from edgetune.workloads.rounds import OptimiserStep, TrainingRounds

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


def test_minibatches_of_a_step_lie_side_by_side():
    rounds = TrainingRounds()
    rounds.add(OptimiserStep(0, 0, 1, 3))
    spans = rounds.add(OptimiserStep(100, 0, 1, 3))
    assert (spans[0][0], spans[-1][1]) == (0, 100)
    assert all(before[1] == after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize("first", [[], [(GENERATOR, 30, 1)]])
def test_a_round_is_one_minibatch_whoever_steps_first(first):
    found, note = minibatches([*first, *([(CRITIC, 10, 1)] * 5 + [(GENERATOR, 30, 1)]) * 4])
    assert set(found) == {80}
    assert "2 optimisers step" in note


def test_optimisers_that_step_together_share_the_accumulated_passes():
    found, note = minibatches([(0, 30, 4), (1, 10, 0)] * 4)
    assert found == [10] * 12
    assert "4 backward passes is 4 minibatches" in note


def test_a_loop_that_never_repeats_itself_counts_the_optimiser_that_steps_least():
    found, _ = minibatches([(CRITIC, 10, 1)] * 20 + [(GENERATOR, 10, 1)] * 2 + [(CRITIC, 10, 1)] * 8)
    assert found
    assert set(found) == {120}


def test_an_optimiser_that_never_steps_is_waited_for_in_vain():
    rounds, found = TrainingRounds(), []
    for step in range(1, 31):
        found += rounds.add(OptimiserStep(step, 0, 2, 1))
    assert len(found) == 29
