"""Tasks that are ready, in two orders, against a plain list that is sorted anew every time."""

from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.schedule.request_state import ReadySet
from edgetune.stages.schedule.tasks import LayerTask

PLACES = st.tuples(st.integers(0, 30), st.integers(0, 5))


def task(place, size):
    return LayerTask("load", "n", "n", place[1], place[0], size, 0)


def check(ready, model):
    tasks = sorted(model.values(), key=lambda each: (each.request, each.layer))
    assert list(ready) == tasks
    assert len(ready) == len(tasks)
    assert ready.first == (tasks[0] if tasks else None)
    assert ready.smallest == min(tasks, key=lambda each: each.bytes, default=None)


@given(st.lists(st.tuples(st.dictionaries(PLACES, st.integers(0, 4), max_size=40), st.sets(PLACES, max_size=120))))
def test_both_orders_hold_whatever_comes_and_goes(steps):
    ready, model = ReadySet(), {}
    for coming, going in steps:
        new = [task(place, size) for place, size in coming.items() if place not in model]
        ready.add_all(new)
        model.update({(each.request, each.layer): each for each in new})
        check(ready, model)
        gone = [model.pop(place) for place in sorted(going) if place in model]
        ready.remove_all(gone)
        check(ready, model)
