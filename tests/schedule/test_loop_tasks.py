"""The loop's tasks: their order and times in closed form, memory by kind, weights shared or not, and bad choices."""

import pytest
from schedule_builder import MS, FirstCome, batch, chain, ends_ms, layer, loop_of, run, times_ms

from edgetune.errors import EdgetuneError, InfeasibleError
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import LayerTask

TWO = chain(
    "two",
    {"weights": 100, "output": 10, "scratch": 5, "load_ms": 10, "execute_ms": 20},
    {"weights": 200, "output": 1, "scratch": 2, "load_ms": 30, "execute_ms": 40},
    input_bytes=7,
)


class Scripted(FirstCome):
    """Chooses what it was told, one after another, and then as ``FirstCome``; a function picks from the view."""

    name = "scripted"

    def __init__(self, *choices, shares_weights=True):
        super().__init__(shares_weights=shares_weights)
        self._choices = list(choices)

    def choose(self, view):
        if self._choices:
            return self._choices.pop(0)(view)
        return super().choose(view)


def test_one_worker_takes_the_sum_of_two_layers():
    loop = run([TWO], batch("two"))
    assert times_ms(loop) == [
        ("load", 0, 0, 0.0, 10.0),
        ("execute", 0, 0, 10.0, 30.0),
        ("load", 0, 1, 30.0, 60.0),
        ("execute", 0, 1, 60.0, 100.0),
    ]
    (answer,) = loop.requests
    assert (answer.outcome, answer.begun_ns, answer.response_ns) == ("ok", 0, 100 * MS)


def test_two_workers_load_while_they_execute():
    loop = run([TWO], batch("two"), workers=2)
    # both load at half speed until the first is there (20 ms); 10 of 30 are done then, and 20 remain
    assert sorted(times_ms(loop)) == [
        ("execute", 0, 0, 20.0, 40.0),
        ("execute", 0, 1, 40.0, 80.0),
        ("load", 0, 0, 0.0, 20.0),
        ("load", 0, 1, 0.0, 40.0),
    ]
    workers = {(task.kind, task.layer): task.worker for task in loop.tasks}
    assert workers == {("load", 0): 0, ("load", 1): 1, ("execute", 0): 0, ("execute", 1): 0} | dict.fromkeys(
        [("unload", 0), ("unload", 1)]
    )


def test_shared_weights_are_loaded_once_for_all_and_own_ones_for_each():
    shared = run([TWO], batch("two", "two", "two"))
    assert [task.layer for task in shared.tasks if task.kind == "load"] == [0, 1]
    assert ends_ms(shared)[2] == ("ok", 40.0 + 3 * 60)
    own = run([TWO], batch("two", "two"), policy=FirstCome(shares_weights=False))
    loads = [(task.copy, task.layer) for task in own.tasks if task.kind == "load"]
    assert sorted(loads) == [("two#0", 0), ("two#0", 1), ("two#1", 0), ("two#1", 1)]
    assert ends_ms(own)[1] == ("ok", 200.0)


def test_branches_run_side_by_side_and_join():
    arms = (layer(output=4, execute_ms=1), layer(output=2, execute_ms=6, after=(0,)))
    network = LayeredNetwork(
        "arms", (*arms, layer(execute_ms=4, after=(0,), output=3), layer(execute_ms=1, after=(1, 2)))
    )
    loop = run([network], batch("arms"), workers=2)
    assert times_ms(loop) == [
        ("execute", 0, 0, 0.0, 1.0),
        ("execute", 0, 2, 1.0, 5.0),
        ("execute", 0, 1, 1.0, 7.0),
        ("execute", 0, 3, 7.0, 8.0),
    ]
    assert [task.held_bytes for task in loop.tasks] == [4, 4 + 2 + 3, 4 + 2, 2 + 3]


def test_a_budget_below_the_hungriest_layer_is_refused_with_the_smallest_that_works():
    large = chain("large", {"weights": 20 * 2**20, "output": 2**20 + 1})
    with pytest.raises(InfeasibleError, match="network large") as caught:
        loop_of([TWO, large], batch("two", "large"), budget=2**20)
    assert "22MiB" in caught.value.hint, "21 MiB and a byte, in a unit that can be written down"
    loop_of([TWO, large], batch("two"), budget=2**20)
    with pytest.raises(InfeasibleError) as caught:
        loop_of([TWO], batch("two"), budget=212)
    assert "1KiB" in caught.value.hint
    run([TWO], batch("two"), budget=213, policy=FirstCome(shares_weights=False))


def test_nothing_is_chosen_that_is_not_ready():
    cases = {
        "which is not ready": LayerTask("execute", "two", "two", 0, 0, 22, 0),
        "execute layer 0": LayerTask("execute", "two", "two", 0, 0, 22, 0),
        "load layer 0 of two#3": LayerTask("load", "two", "two#3", 0, 0, 100, 0),
        "unload layer 1": LayerTask("unload", "two", "two", 1, 0, 200, 0),
    }
    for message, choice in cases.items():
        with pytest.raises(EdgetuneError, match=f"policy scripted chose to .*{message}"):
            run([TWO], batch("two"), policy=Scripted(lambda view, choice=choice: choice))


def test_nothing_starts_beyond_the_budget_while_anything_runs():
    def first(view):
        return view.loads.first

    with pytest.raises(EdgetuneError, match="needs 200 B of 115 B free while others run"):
        run([TWO], batch("two"), policy=Scripted(first, first), workers=2, budget=215)


def test_a_policy_that_starts_nothing_is_an_error_and_requests_are_recorded():
    loop, _ = loop_of([TWO], batch("two", "two"), policy=Scripted(*[lambda view: None] * 9))
    with pytest.raises(EdgetuneError, match=r"policy scripted starts nothing .* 2 requests wait"):
        loop.run()
    assert ends_ms(loop) == {0: ("abandoned", 0.0), 1: ("abandoned", 0.0)}
