"""The simulated GPU, in scenarios whose times can be written down."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import FREE, GPU, US, Scene, call

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Resources, blocks_resident, catalogue
from edgetune.stages.elastic.model import GpuTimingModel, seen_by_policies

LATENCY = 10.0
"""Of a launch on the small GPU, us."""


def test_a_kernel_alone_takes_as_many_waves_as_its_blocks_need():
    scene = Scene()
    scene.launch(call(blocks=20, threads=128, block_us=100))
    # 8 fit on each, twice as many as reach its peak: 16 in 200 us; the other 4 are two on each: 100 us
    assert scene.run() == {(0, "started"): LATENCY, (0, "ended"): LATENCY + 200 + 100}


def test_operations_take_what_the_multiprocessor_computes():
    scene = Scene()
    scene.launch(call(blocks=2, threads=512, flop=1e8))  # 1e12 a second on each
    assert scene.run()[0, "ended"] == LATENCY + 100


def test_waits_of_a_thread_do_not_get_shorter_with_more_blocks_and_are_in_measured_times_already():
    waiting = replace(call(blocks=32, threads=128, flop=1e4), waits_per_block=10)
    scene = Scene()
    scene.launch(waiting)  # 8 fit on each: two waves
    assert scene.run()[0, "ended"] == LATENCY + 2 * 10 * GpuTimingModel().wait_s * 1e6
    measured = Scene()
    measured.launch(replace(call(blocks=20, threads=128, block_us=100), waits_per_block=1000))
    assert measured.run()[0, "ended"] == LATENCY + 200 + 100


def test_groups_share_the_bandwidth():
    scene = Scene()
    scene.launch(call(blocks=16, threads=128, drawn=1e6))
    assert scene.run()[0, "ended"] == LATENCY + 16e6 / GPU.bandwidth_bytes_per_s * 1e6


def test_computing_and_drawing_overlap_in_a_block_and_between_blocks():
    computes, draws = call(blocks=2, threads=512, flop=1e8), call(blocks=2, threads=512, drawn=5e6)
    alone, both = Scene(0, 0), Scene(0, 0)
    alone.launch(draws)
    took = alone.run()[0, "ended"]
    both.launch(computes)
    both.launch(draws, 1)
    ended = both.run()
    assert took == LATENCY + 100
    assert ended == {(0, "started"): LATENCY, (1, "started"): LATENCY, (0, "ended"): took, (1, "ended"): took}


@pytest.mark.parametrize(
    ("what", "resident"),
    [
        (call(threads=1024), 1),  # threads
        (call(threads=128, registers=128), 4),  # 128 x 128 registers of 65536
        (call(threads=32, shared=32768), 2),  # shared memory
        (call(threads=32), 8),  # blocks
    ],
)
def test_the_scarcest_resource_limits_resident_blocks(what, resident):
    scene = Scene(model=replace(FREE, saturating_threads=2048))  # so that blocks do not slow each other
    assert blocks_resident(GPU, what.resources[1], what.logical.threads, what.logical.dynamic_shared_bytes) == resident
    waves = 3
    scene.launch(replace(what, logical=replace(what.logical, grid=(2 * resident * waves, 1, 1))))
    assert scene.run()[0, "ended"] == LATENCY + waves * 100


def test_a_form_of_a_kernel_needs_what_it_was_compiled_to():
    what = replace(call(blocks=8, threads=512), resources={1: Resources(32), 4: Resources(255)})
    scene = Scene()
    scene.launch(what, blocks=8, per_thread=4)  # 255 registers x 128 threads: two fit on each
    assert scene.run()[0, "ended"] == LATENCY + 2 * 400


def test_bandwidth_that_one_launch_needs_no_more_is_there_for_the_others():
    scene = Scene(0, 0)
    scene.launch(call(blocks=2, threads=512, drawn=1e6))  # 10 us each, were it alone
    scene.launch(call(blocks=1, threads=512, drawn=4e6), 1)  # 40 us, beside the first block of the other
    ended = scene.run()
    # 6 MB in 60 us: the block alone on its multiprocessor is over after 20 us, the one that shares after 30 us
    assert (ended[0, "ended"], ended[1, "ended"]) == (LATENCY + 30, LATENCY + 60)
    assert sorted(each.end_ns / US for each in scene.gpu.residencies) == [LATENCY + 20, LATENCY + 30, LATENCY + 60]


def test_blocks_that_fit_nowhere_fail_at_once_and_leave_the_stream_alone():
    scene = Scene()
    scene.launch(call(threads=1024, registers=255))
    scene.launch(call(blocks=2))
    (refused,) = scene.gpu.wait(None)
    assert (refused.kind, refused.at_ns) == ("ended", 0)
    assert "not one block of k fits on a multiprocessor of small" in refused.failure
    assert scene.run()[1, "ended"] == LATENCY + 100


def test_a_kernel_of_unknown_time_is_refused():
    with pytest.raises(InputError, match="the time of kernel k is unknown"):
        Scene().launch(call(block_us=None))


def test_a_stream_is_in_order_with_a_gap_where_a_launch_waited():
    scene = Scene(model=replace(FREE, gap_s=1e-6))
    scene.launch(call(blocks=1))
    scene.launch(call(blocks=1))
    ended = scene.run()
    assert ended[0, "ended"] == LATENCY + 100
    assert ended[1, "started"] == LATENCY + 100 + 1
    assert ended[1, "ended"] == LATENCY + 201


def test_a_barrier_between_streams_is_waited_for():
    scene = Scene(0, 0)
    first = scene.launch(call(blocks=1))
    scene.launch(call(blocks=1), 1, after=(first,))
    ended = scene.run()
    assert ended[1, "started"] == ended[0, "ended"]


def test_the_host_is_busy_with_launching_while_the_gpu_goes_on():
    scene = Scene(0, 0, model=replace(FREE, host_s=30e-6))
    scene.launch(call(blocks=1, block_us=15))
    scene.launch(call(blocks=1, block_us=15), 1)
    assert scene.gpu.now_ns() == 60 * US
    assert scene.run() == {(0, "started"): 40, (0, "ended"): 55, (1, "started"): 70, (1, "ended"): 85}


def test_a_persistent_block_takes_one_logical_block_after_another():
    scene = Scene(model=replace(FREE, turn_s=1e-6))
    scene.launch(call(blocks=64, threads=512), first=10, count=7, blocks=2)  # four and three
    assert scene.run()[0, "ended"] == LATENCY + 4 * 101


@pytest.mark.parametrize("per_thread", [1, 2, 4])
def test_fewer_threads_with_more_work_each_take_as_long_in_all(per_thread):
    scene = Scene()
    what = call(blocks=16, threads=512, block_us=100, registers=32)
    scene.launch(what, blocks=4 * per_thread, per_thread=per_thread)
    assert scene.run()[0, "ended"] == LATENCY + 8 * 100


def test_a_block_of_few_threads_is_slower_alone_and_serial_work_costs_more():
    scene = Scene(model=replace(FREE, serial_cost=0.25))
    scene.launch(call(blocks=1, threads=512, block_us=100), blocks=1, per_thread=4)
    assert scene.run()[0, "ended"] == LATENCY + 100 * 4 * 1.25


def test_blocks_go_where_most_of_them_have_room_and_residencies_tell_where():
    scene = Scene(0, 0)
    scene.launch(call(blocks=1, threads=512, block_us=300))
    scene.launch(call(blocks=4, threads=256, block_us=100), 1)
    scene.run()
    first = next(each for each in scene.gpu.residencies if each.launch == 0)
    others = {each.sm: each.blocks for each in scene.gpu.residencies if each.launch == 1}
    assert (first.sm, first.blocks) == (0, 1)
    assert others == {0: 1, 1: 3}


def test_waves_of_a_launch_are_one_residency_on_each_multiprocessor():
    scene = Scene()
    scene.launch(call(blocks=6, threads=1024, block_us=50))
    scene.run()
    found = [(each.sm, each.blocks, each.start_ns / US, each.end_ns / US) for each in scene.gpu.residencies]
    assert found == [(0, 3, LATENCY, LATENCY + 150), (1, 3, LATENCY, LATENCY + 150)]


def test_a_launch_that_was_kept_waiting_between_its_waves_has_two_residencies():
    scene = Scene(0, 1)
    scene.launch(call(blocks=4, threads=1024, block_us=100))
    scene.until(20)
    scene.launch(call(blocks=2, threads=1024, block_us=100), 1)
    scene.run()
    spans = [
        (each.start_ns / US, each.end_ns / US) for each in scene.gpu.residencies if (each.launch, each.sm) == (0, 0)
    ]
    assert spans == [(10, 110), (210, 310)]


def test_where_blocks_were_is_kept_until_there_is_enough_of_it():
    scene = Scene(most_residencies=3)
    for _ in range(4):
        scene.launch(call(blocks=2))
    scene.run()
    assert [each.launch for each in scene.gpu.residencies] == [0, 0, 1, 1]
    assert scene.gpu.residencies_until_ns == (LATENCY + 200) * US
    assert scene.gpu.blocks == 8


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(1, 40), st.sampled_from([32, 96, 256, 1024]), st.integers(1, 90),
            st.booleans(), st.integers(0, 60),
        ),
        min_size=1, max_size=12,
    )
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_launch_ends_once_in_stream_order_with_all_of_its_blocks(launches):
    scene = Scene(0, 1, 1, model=GpuTimingModel())
    waits, whats, streams = [], [], []
    for stream, blocks, threads, block_us, elastic, pause in launches:
        what = call(blocks, threads, block_us)
        whats.append(what)
        streams.append(stream)
        scene.launch(what, stream, **({"blocks": 1 + blocks // 3} if elastic else {}))
        waits.append(scene.gpu.wait(scene.gpu.now_ns() + pause * US))
    while more := scene.gpu.wait(None):
        waits.append(more)
    moments = [moment for wait in waits for moment in wait]
    assert sorted((each.launch, each.kind) for each in moments) == sorted(
        (number, kind) for number in range(len(launches)) for kind in ("started", "ended")
    )
    assert [each.at_ns for each in moments] == sorted(each.at_ns for each in moments)
    for stream in range(3):
        of = [each for each in moments if streams[each.launch] == stream]
        assert [(each.launch, each.kind) for each in of] == [
            (number, kind) for number in dict.fromkeys(each.launch for each in of) for kind in ("started", "ended")
        ]
    for number, what in enumerate(whats):
        where = [each for each in scene.gpu.residencies if each.launch == number]
        elastic = launches[number][4]
        assert sum(each.blocks for each in where) == (
            min(1 + what.logical.blocks // 3, what.logical.blocks) if elastic else what.logical.blocks
        )


def test_a_slow_host_is_busy_with_events_and_decisions_and_the_gpu_goes_on():
    scene = Scene(model=replace(FREE, event_s=40e-6, decision_s=100e-6, stream_wait_s=5e-6))
    scene.launch(call(blocks=2))  # visible after 10 us, 100 us long
    assert [(each.kind, each.at_ns) for each in scene.gpu.wait(None)] == [("started", 10 * US)]
    assert scene.gpu.now_ns() == 50 * US
    scene.gpu.decided()
    assert scene.gpu.now_ns() == 150 * US
    scene.launch(call(blocks=2), after=(0,))
    assert scene.gpu.now_ns() == 155 * US
    assert [(each.kind, each.at_ns) for each in scene.gpu.wait(None)] == [("ended", 110 * US)]
    assert scene.gpu.now_ns() == 195 * US
    assert [(each.kind, each.at_ns) for each in scene.gpu.wait(None)] == [("started", 165 * US)]
    assert [(each.kind, each.at_ns) for each in scene.gpu.wait(None)] == [("ended", 265 * US)]
    assert scene.gpu.wait(None) == []


def test_policies_count_the_time_of_the_host_with_the_launch_and_the_gpu_does_not():
    slow = replace(FREE, host_s=20e-6, decision_s=10e-6, event_s=5e-6)
    assert seen_by_policies(GPU, slow).launch_s == pytest.approx(GPU.launch_s + 35e-6)
    assert seen_by_policies(GPU, FREE).launch_s == GPU.launch_s


def test_every_gpu_of_the_catalogue_has_a_source_and_limits_that_hold_together():
    assert [gpu.sm_count for gpu in catalogue().values()] == [16, 8, 8, 30, 132, 132]
    for name, gpu in catalogue().items():
        assert gpu.name == name
        assert gpu.threads_per_sm % gpu.blocks_per_sm == 0
        assert gpu.threads_per_block <= gpu.threads_per_sm
        assert gpu.shared_bytes_per_block <= gpu.shared_bytes_per_sm
        for field in ("limits", "sm_count", "flop_per_s", "bandwidth_bytes_per_s", "launch_s"):
            assert f"{field}: " in gpu.source


def test_a_task_with_a_part_of_the_multiprocessors_stays_there_and_keeps_no_other_waiting():
    scene = Scene(0, 0, sms=(1, None))
    scene.launch(call(blocks=24, threads=128, block_us=100), 0)  # 8 fit on the one that it may use: three waves
    scene.launch(call(blocks=8, threads=128, block_us=100), 1)
    ends = scene.run()
    assert ends[0, "ended"] == LATENCY + 3 * 200
    assert ends[1, "started"] == LATENCY, "the other one is free, though blocks of the first still wait"
    assert ends[1, "ended"] == LATENCY + 200
    assert {each.sm for each in scene.gpu.residencies if each.launch == 0} == {0}
    assert {each.sm for each in scene.gpu.residencies if each.launch == 1} == {1}
