"""Time to accuracy on a table whose optimum and baselines are worked out by hand, and what a wrong proxy costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.accuracy import Comparison, choice_of, compare
from edgetune.stages.search.model.beliefs import Belief
from edgetune.stages.search.model.gain import worth
from edgetune.stages.search.problem import judge, validate


def row(size: int, clock: float, minibatch_s: float, power_w: float | None) -> ProfileRow:
    return ProfileRow("net", "train", size, minibatch_s, gpu_mhz=clock, power_w=power_w)


# s per sample: batch 8: 0.5, 0.25; batch 32: 0.25, 0.125 at clocks 100 and 200
ROWS = [row(8, 100, 4.0, 4.0), row(8, 200, 2.0, 6.0), row(32, 100, 8.0, 5.0), row(32, 200, 4.0, 9.0)]
EPOCHS = {8: 4.0, 32: 9.0}
# times to accuracy per sample: batch 8: 2.0, 1.0; batch 32: 2.25, 1.125. Energies: 8.0, 6.0; 11.25, 10.125


def accuracy_problem(epochs, **options) -> Problem:
    problem = Problem("accuracy", epochs_to_target=tuple(sorted(epochs.items())), **options)
    validate(problem)
    return problem


def compared(problem, rows, **options) -> Comparison:
    """The best of the rows beside the baselines."""
    known = [each for each in rows if each.task == "train" and each.batch_size in dict(problem.epochs_to_target)]
    judged = {place: judge(problem, each) for place, each in enumerate(known)}
    best = max((place for place in judged if judged[place].feasible), key=lambda place: judged[place].objective)
    return compare(problem, rows, known[best], **options)


def test_cost_is_time_per_sample_times_epochs():
    problem = accuracy_problem(EPOCHS)
    choices = [choice_of(problem, each) for each in ROWS]
    assert [c.time_s for c in choices] == [2.0, 1.0, 2.25, 1.125]
    assert [c.energy_j for c in choices] == [8.0, 6.0, 11.25, 10.125]
    measured = replace(ROWS[0], energy_j=20.0)  # J per minibatch, as a meter says, goes before power x time
    assert choice_of(problem, measured).energy_j == 20.0 / 8 * 4.0


def test_joint_choice_beside_both_baselines():
    """At 6 W only clock 100 is safe for every batch; batch 8 alone may have 200."""
    found = compared(accuracy_problem(EPOCHS, power_budget_w=6.0), ROWS)
    assert found.answer.row is ROWS[1]
    assert found.worst_case == Mode(gpu_mhz=100)
    assert found.largest_batch.row is ROWS[2]
    assert found.best_batch.row is ROWS[0]
    assert found.times_faster(found.largest_batch) == 2.25
    assert found.times_faster(found.best_batch) == 2.0
    assert found.times_less_energy(found.largest_batch) == 11.25 / 6.0


def test_baseline_two_takes_the_fewest_epochs_even_where_they_are_slow():
    """Baseline 2 of the study, section 5.1: the batch that minimises the epochs, at the clock that is set first."""
    found = compared(accuracy_problem({8: 4.0, 32: 4.5}), ROWS)
    assert (found.fewest_epochs.row, found.best_batch.row) == (ROWS[1], ROWS[3])
    assert found.times_faster(found.fewest_epochs) == 1.0 / 0.5625


def test_the_clock_that_is_set_first_suits_every_network_of_the_device():
    hungry = [replace(each, workload="large", power_w=each.power_w + 1) for each in ROWS]
    problem = accuracy_problem(EPOCHS, power_budget_w=9.0)
    assert compared(problem, ROWS).worst_case == Mode(gpu_mhz=200)
    assert compared(problem, ROWS, others=hungry).worst_case == Mode(gpu_mhz=100)
    assert compared(problem, ROWS, others=hungry).answer == compared(problem, ROWS).answer
    none = compared(problem, ROWS, others=[replace(each, power_w=99.0) for each in hungry])
    assert none.why == "in no mode does every network and batch size keep the power budget"
    few = compared(problem, ROWS, others=[hungry[0], hungry[3]])
    assert few.why == "no mode was measured with every network at every batch size"


@pytest.mark.parametrize("objective", ["time", "energy", "energy-delay"])
def test_the_cost_in_roofline_equals_the_judged_objective(objective):
    problem = accuracy_problem(EPOCHS, objective=objective)
    times, powers, sizes = np.array([(r.minibatch_s, r.power_w, r.batch_size) for r in ROWS], dtype=float).T
    unsure = np.full(len(ROWS), 0.1)
    found = worth(problem, Belief(np.log(times), unsure, np.log(powers), unsure), sizes)
    assert -np.exp(found.log_cost) == pytest.approx([judge(problem, each).objective for each in ROWS])
    assert (found.cost_sd >= 0.1).all()


@pytest.mark.parametrize(
    ("rows", "budget_w", "why"),
    [
        (ROWS[:3], 4.5, "in no mode does every batch size keep the power budget"),
        ([ROWS[1], ROWS[2]], None, "no mode was measured at every batch size"),
    ],
)
def test_why_there_are_no_baselines(rows, budget_w, why):
    found = compared(accuracy_problem(EPOCHS, power_budget_w=budget_w), rows)
    assert (found.worst_case, found.largest_batch, found.best_batch, found.why) == (None, None, None, why)


def test_rows_that_are_no_training_or_miss_the_target_are_left_aside():
    rows = [*ROWS, replace(ROWS[1], task="infer", minibatch_s=1e-9), row(64, 200, 1e-9, 1.0)]
    rows.append(replace(ROWS[0], minibatch_s=None, status="failed", reason="no"))
    assert compared(accuracy_problem(EPOCHS), rows) == compared(accuracy_problem(EPOCHS), ROWS)


def test_without_power_there_is_no_energy_and_without_epochs_an_error():
    powerless = [replace(each, power_w=None) for each in ROWS]
    assert compared(accuracy_problem(EPOCHS), powerless).answer.energy_j is None
    with pytest.raises(InputError, match="no training rows at batch sizes with known epochs"):
        compare(accuracy_problem({8: 1.0}), ROWS[2:], ROWS[0])


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.floats(0.01, 10), min_size=9, max_size=9),
    powers=st.lists(st.floats(1, 10), min_size=9, max_size=9),
    epochs=st.lists(st.floats(0.1, 50), min_size=3, max_size=3),
    budget_w=st.none() | st.floats(5, 10),
)
def test_on_any_table_nothing_beats_the_answer(times, powers, epochs, budget_w):
    places = [(size, clock) for size in (4, 8, 16) for clock in (1.0, 2.0, 3.0)]
    rows = [row(*place, t, p) for place, t, p in zip(places, times, powers, strict=True)]
    own = dict(zip((4, 8, 16), epochs, strict=True))
    problem = accuracy_problem(own, power_budget_w=budget_w)
    within = [each for each in rows if budget_w is None or each.power_w <= budget_w]
    assume(within)
    found = compared(problem, rows)
    assert found.answer.time_s == min(choice_of(problem, each).time_s for each in within)
    for baseline in (found.largest_batch, found.best_batch):
        if baseline is not None:
            assert found.times_faster(baseline) >= 1
            assert budget_w is None or baseline.row.power_w <= budget_w
