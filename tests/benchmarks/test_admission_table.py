"""The admission test is never wrong to admit and seldom wrong to refuse, on a part of the benchmark's random sets."""

from admission import confusion, false_refusals


def test_random_sets_are_admitted_only_where_the_simulation_shows_no_violation():
    table = confusion(20, seed=100_000)
    assert table[True, "late"] == table[True, "starved"] == 0
    assert false_refusals(table) <= 0.1
    assert table[True, None] >= 5
    assert table[False, "late"] >= 5
