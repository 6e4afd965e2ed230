"""Requests that wait: found by their place, and taken from the middle where the oldest are passed over."""

from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.interleave.tenant_state import WaitingRequests


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 6)), max_size=60))
def test_the_queue_is_a_list_whose_later_entries_can_be_taken_first(turns):
    waiting, model, number = WaitingRequests(), [], 0
    for come, wanted, skipped in turns:
        for _ in range(come):
            waiting.append(number, 10 * number)
            model.append((number, 10 * number))
            number += 1
        count, passed = min(wanted, len(model)), min(skipped, len(model))
        later = model[passed : passed + count] if passed else []
        older = [request for request in model if request not in later][: count - len(later)]
        assert waiting.take(count, passed) == (*older, *later)
        model = [request for request in model if request not in older + later]
        arrivals = [arrived for _, arrived in model]
        assert (list(waiting), len(waiting), waiting[:]) == (arrivals, len(arrivals), arrivals)
        assert [waiting[-1 - place] for place in range(len(model))] == arrivals[::-1]
    assert waiting.take_all() == tuple(model)
    assert len(waiting) == 0
