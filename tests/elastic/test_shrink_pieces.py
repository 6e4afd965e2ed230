"""Which pieces are kept: slices, block sizes, what the compiler says, scores, and the best for every leftover."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.elastic.gpu import Call, Gpu, Logical, Resources
from edgetune.stages.elastic.kernel import PER_THREAD
from edgetune.stages.elastic.pieces import PieceShape
from edgetune.stages.elastic.shrink import LAUNCHES, balance_score, block_threads, flaw_of, kept_pieces, shrink, slices

EIGHT = Gpu("eight", 8, "7.2", 2048, 32, 1024, 65536, 98304, 98304, 1.4e12, 137e9, 5e-6, "made up")
SIXTEEN = Gpu("sixteen", 16, "8.7", 1536, 16, 1024, 65536, 167936, 166912, 5.3e12, 205e9, 5e-6, "made up")
PLAIN = Resources(32)
ALL = dict.fromkeys(PER_THREAD, PLAIN)


def launch(blocks: int, threads: int) -> Logical:
    return Logical((blocks, 1, 1), (threads, 1, 1))


@given(st.integers(1, 2**31))
def test_slices_divide_the_grid_and_the_smallest_is_odd(blocks: int) -> None:
    found = slices(blocks)
    assert found[0] % 2 == 1
    assert found[-1] == blocks
    assert all(large == 2 * small for small, large in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (256, {1: 256, 2: 128, 4: 64, 8: 32}),
        (64, {1: 64, 2: 32}),
        (96, {1: 96}),
        (192, {1: 192, 2: 96}),
        (100, {1: 100}),  # the original block may be any size; a smaller one is of whole warps
    ],
)
def test_blocks_are_of_whole_warps(threads: int, expected: dict[int, int]) -> None:
    assert block_threads(threads) == expected


def test_scores_are_those_of_the_paper() -> None:
    # 4 critical blocks on 16 multiprocessors, 12 more; 512 of 1536 threads and 256 more
    assert balance_score(SIXTEEN, 4, 512, 12, 256) == (4 + 12) / 16 * ((512 + 256) / 1536)
    assert balance_score(SIXTEEN, 4, 512, 6, 256) == (4 + 6) / 16 * ((512 + 256) / 1536)


def test_196_blocks_on_8_multiprocessors_are_cut() -> None:
    found = shrink("conv", launch(196, 512), PLAIN, ALL, EIGHT)
    assert {design.count for design in found.designs} == {49, 98, 196}
    kept = found.table()
    # 2048 threads: 512 fit beside 1536, 256 beside 1792, 128 beside 1920, 64 beside 1984
    assert kept.choose(0, 0) == PieceShape(49, 1, 8)
    assert kept.choose(0, 1536) == PieceShape(49, 1, 8)
    assert kept.choose(0, 1537) == PieceShape(49, 2, 8)
    assert kept.choose(5, 1792) == PieceShape(49, 2, 3)
    assert kept.choose(5, 1793) == PieceShape(49, 4, 3)
    assert kept.choose(7, 1984) == PieceShape(49, 8, 1)
    assert kept.choose(7, 1985) is None


def test_the_best_fifth_of_what_fits_is_kept() -> None:
    found = shrink("conv", launch(196, 512), PLAIN, ALL, EIGHT)
    assert len(found.designs) == 3 * 4
    assert found.leftovers == (1536, 1792, 1920, 1984)
    beside = [(place.critical_blocks, place.critical_threads) for place in found.places]
    kept = [beside.count((2, threads)) for threads in found.leftovers]
    assert kept == [math.ceil(0.2 * fits) for fits in (12, 9, 6, 3)]
    assert found.pruned_share == pytest.approx(1 - (3 + 2 + 2 + 1) / (12 * 4))
    first = [place for place in found.places if (place.critical_blocks, place.critical_threads) == (2, 1536)]
    assert [(place.rank, place.count) for place in first] == [(0, 49), (1, 98), (2, 196)]  # equal scores
    assert {place.score for place in first} == {(2 + 6) / 8 * ((1536 + 512) / 2048)}


def test_pieces_too_many_to_launch_are_not_kept() -> None:
    blocks = 2 * LAUNCHES  # in pieces of one block, twice as many as are allowed
    found = shrink("relu", launch(blocks, 64), PLAIN, ALL, EIGHT)
    assert {design.count for design in found.designs if not design.cheap} == {1}
    assert min(place.count for place in found.places) == 2


def test_reasons_name_the_rule() -> None:
    forms = {1: Resources(36), 2: Resources(40), 4: Resources(48), 8: Resources(64, stack_bytes=16)}
    found = shrink("conv", launch(256, 512), PLAIN, forms, SIXTEEN)

    def reasons(per_thread: int) -> dict[int, str | None]:
        return {each.count: found.reason(each) for each in found.designs if each.per_thread == per_thread}

    assert set(reasons(8).values()) == {"stack"}
    assert reasons(1)[1] == "too many launches"
    assert None in reasons(1).values()


@pytest.mark.parametrize(
    ("per_thread", "form", "flaw"),
    [
        (1, Resources(38), None),
        (1, Resources(48), None),  # a whole block may take more registers, as long as it fits
        (1, Resources(129), "does not fit"),  # 512 threads x 136, the next multiple of 8, are more than 65536
        (2, Resources(76), None),  # 256 x 76 = 512 x 38
        (2, Resources(77), "registers"),
        (8, Resources(80), None),
        (2, Resources(40, stack_bytes=8), "stack"),
        (2, Resources(40, spill_bytes=4, stack_bytes=8), "spills"),
        (2, Resources(40, static_shared_bytes=98305), "does not fit"),
    ],
)
def test_reasons_to_drop_a_form_from_the_compiler_report(per_thread: int, form: Resources, flaw: str | None) -> None:
    assert flaw_of(Resources(38), form, launch(196, 512), per_thread, EIGHT) == flaw


def test_the_last_warp_of_a_block_takes_room_whole() -> None:
    kept = shrink("odd", launch(16, 1000), PLAIN, ALL, SIXTEEN).table()  # 1000 threads take 1024 of 1536
    assert kept.choose(0, 512) == PieceShape(16, 1, 16)
    assert kept.choose(0, 513) is None


def test_a_flawed_form_is_never_chosen() -> None:
    forms = {1: PLAIN, 2: Resources(32, stack_bytes=16), 4: PLAIN}
    kept = shrink("conv", launch(64, 512), PLAIN, forms, EIGHT).table()
    assert kept.choose(0, 1536) == PieceShape(8, 1, 8)  # the smallest slice that fills all eight
    assert {shape.per_thread for row in kept.rows for _, shape in row} == {1, 4}


def test_an_uncompiled_call_is_judged_by_its_threads() -> None:
    every = kept_pieces(Call("conv", launch(64, 256)), SIXTEEN)
    assert {shape.per_thread for row in every.rows for _, shape in row} == {1, 2, 4, 8}
    one = kept_pieces(Call("conv", launch(64, 256), resources={1: PLAIN}), SIXTEEN)
    assert {shape.per_thread for row in one.rows for _, shape in row} == {1}


def best_by_hand(logical: Logical, per_threads: set[int], gpu: Gpu, blocks: int, threads: int) -> PieceShape | None:
    """Try every piece: the highest score, of equals the fewest logical blocks."""
    found = []
    for count in slices(logical.blocks):
        for per_thread, size in block_threads(logical.threads).items():
            physical = min(count, gpu.sm_count - blocks)
            allowed = per_thread in per_threads and logical.blocks // count <= LAUNCHES
            if allowed and size <= gpu.threads_per_sm - threads:
                score = (blocks + physical) / gpu.sm_count * ((threads + size) / gpu.threads_per_sm)
                found.append((-score, count, size, PieceShape(count, per_thread, physical)))
    return min(found, key=lambda each: each[:3])[3] if found else None


@given(
    blocks=st.integers(1, 5000),
    threads=st.integers(1, 32).map(lambda warps: 32 * warps),
    per_threads=st.sets(st.sampled_from(PER_THREAD), min_size=1),
    gpu=st.sampled_from([EIGHT, SIXTEEN]),
    critical=st.tuples(st.integers(0, 7), st.integers(0, 2100)),
)
def test_the_look_up_finds_what_trying_everything_finds(blocks, threads, per_threads, gpu, critical) -> None:
    logical = launch(blocks, threads)
    forms = dict.fromkeys(per_threads, Resources(8))
    chosen = shrink("any", logical, Resources(64), forms, gpu).table().choose(*critical)
    assert chosen == best_by_hand(logical, per_threads, gpu, *critical)
    if chosen is not None:
        assert chosen.blocks <= gpu.sm_count - critical[0]
        assert threads // chosen.per_thread <= gpu.threads_per_sm - critical[1]
