"""Every policy keeps the promises of its kind, and each decides as it says."""

import pytest

from contracts.elastic_contract import ElasticPolicyContract, check_leftovers
from contracts.elastic_histories import GPUS
from edgetune.stages.elastic.gpu import Call, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.pieces import LeftoverTable, PieceShape
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.policies.simple import Barrier, MultiStream, Sequential
from edgetune.stages.elastic.view import Launch, LaunchChain, LaunchPiece, TaskState, View

EIGHT = GPUS[2]
"""8 multiprocessors of 2048 threads, 65536 registers and 32 blocks."""
CONV = Call("conv", Logical((196, 1, 1), (256, 1, 1)), resources={n: Resources(32) for n in (1, 2, 4, 8)})
"""2048 / 256 = 8 of its blocks on each multiprocessor, 64 in all: three waves and 4 blocks."""
POOL = Call("pool", Logical((10, 1, 1), (512, 1, 1)))
KEPT = LeftoverTable((((512, PieceShape(49, 1, 3)), (896, PieceShape(49, 4, 2))),) * 8)
"""Beside blocks of up to 512 threads one shape, up to 896 another, and nothing beside larger ones."""


def task(name, priority=0, calls=(CONV,)):
    return GpuTask(name, KernelSequence(name, calls), priority=priority)


def launch(number, of, call=CONV, place=0, **more):
    return Launch(number, of.name, 0, place, call, 0, call.logical.blocks, **more)


def view(*standings, resident=(), gpu=EIGHT):
    return View(1000, gpu, list(standings), list(resident))


@pytest.fixture
def keep(monkeypatch):
    """Have a kernel keep these pieces."""

    def keeping(**tables):
        monkeypatch.setattr("edgetune.stages.elastic.policies.elastic.kept_pieces", lambda call, _: tables[call.kernel])

    return keeping


class TestSequential(ElasticPolicyContract):
    policy = "sequential"


class TestMultiStream(ElasticPolicyContract):
    policy = "multistream"
    at_once = True


class TestBarrier(ElasticPolicyContract):
    policy = "barrier"


class TestElastic(ElasticPolicyContract):
    policy, at_once, keeps_to_leftovers = "elastic", True, True


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_made_for_tasks(name, monkeypatch):
    made = make_policy(name, [task("n"), task("c", 1, (POOL,))], EIGHT)
    assert made.name == name
    monkeypatch.setattr("edgetune.stages.elastic.policies.elastic.kept_pieces", None)  # nothing is worked out later
    runs = launch(0, task("c", 1, (POOL,)), POOL)
    standings = TaskState(task("c", 1, (POOL,)), [], in_flight=[runs]), TaskState(task("n"), [1])
    assert len(made.decide(view(*standings, resident=[runs]))) == (name != "sequential")


# sequential


def test_one_request_at_a_time_in_order_of_arrival():
    a, b = task("a", 1), task("b")
    assert Sequential().decide(view(TaskState(a, [5, 6]), TaskState(b, [3]))) == (LaunchChain("b"),)
    running = TaskState(b, [4], in_flight=[launch(0, b)])
    assert Sequential().decide(view(TaskState(a, [3]), running)) == ()


def test_simultaneous_requests_are_ordered_by_priority_then_by_file():
    standings = [TaskState(task(name, priority), [3]) for name, priority in (("a", 0), ("b", 1), ("c", 2), ("d", 2))]
    assert Sequential().decide(view(*standings)) == (LaunchChain("c"),)


# multistream


def test_every_request_is_launched_at_once_the_most_critical_first():
    a, b, c = task("a"), task("b", 1), task("c", 3)
    found = MultiStream().decide(
        view(TaskState(a, [1, 2], in_flight=[launch(0, a)]), TaskState(b, [9]), TaskState(c, []))
    )
    assert found == [LaunchChain("b"), LaunchChain("a"), LaunchChain("a")]


# barrier


def test_a_round_is_one_kernel_of_each_task():
    a, b = task("a", 0, (POOL, CONV)), task("b", 1)
    standings = TaskState(a, [], request=2, call=1, left=196), TaskState(b, [7]), TaskState(task("c"), [])
    assert Barrier().decide(view(*standings)) == [LaunchPiece("b", 196), LaunchPiece("a", 196)]


def test_the_next_round_waits_for_all_of_the_last_and_there_is_no_third():
    a, b = task("a"), task("b")
    first = [launch(0, a), launch(1, b)]
    one = view(TaskState(a, [7], in_flight=first[:1]), TaskState(b, [8], in_flight=first[1:]))
    assert Barrier().decide(one) == [LaunchPiece("a", 196, after=(0, 1)), LaunchPiece("b", 196, after=(0, 1))]
    second = launch(2, a, after=(0, 1))
    two = view(TaskState(a, [7], in_flight=[second]), TaskState(b, [8], in_flight=first[1:]))
    assert not Barrier().decide(two)
    over = view(TaskState(a, [7], in_flight=[second]), TaskState(b, [8]))
    assert Barrier().decide(over) == [LaunchPiece("a", 196, after=(2,)), LaunchPiece("b", 196, after=(2,))]


# elastic


def test_critical_chains_come_before_everything_one_level_after_the_other():
    standings = [TaskState(task(name, priority), [3]) for name, priority in (("a", 0), ("b", 1), ("c", 7), ("d", 2))]
    order = []
    for _ in range(3):
        (chain,) = Elastic().decide(view(*standings))
        order.append(chain.task)
        next(standing for standing in standings if standing.task.name == chain.task).arrived_ns = []
    assert order == ["c", "d", "b"]


def test_alone_it_launches_waves_two_deep():
    a = task("a")
    wave = LaunchPiece("a", 64, 1, 64)
    assert Elastic().decide(view(TaskState(a, [1]))) == (wave,)
    one = TaskState(a, [], request=0, left=132, in_flight=[launch(0, a)])
    assert Elastic().decide(view(one)) == (wave,)
    two = TaskState(a, [], request=0, left=68, in_flight=[launch(0, a), launch(1, a)])
    assert Elastic().decide(view(two)) == ()
    last = TaskState(a, [], request=0, left=4)
    assert Elastic().decide(view(last)) == (LaunchPiece("a", 4, 1, 4),)


@pytest.mark.parametrize(
    ("threads", "found"),
    [
        (256, (LaunchPiece("n", 49, 1, 3),)),
        (512, (LaunchPiece("n", 49, 1, 3),)),
        (513, (LaunchPiece("n", 49, 4, 2),)),
        (1024, ()),
    ],
)
def test_beside_a_critical_kernel_it_launches_the_kept_piece_that_fits(keep, threads, found):
    critical = task("c", 1, (Call("critical", Logical((12, 1, 1), (threads, 1, 1))),))
    runs = launch(0, critical, critical.network.calls[0])
    normal = TaskState(task("n"), [1])
    keep(conv=KEPT)
    assert Elastic().decide(view(TaskState(critical, [], in_flight=[runs]), normal, resident=[runs])) == found


def test_the_last_piece_has_no_more_blocks_than_are_left(keep):
    critical = task("c", 1, (POOL,))
    runs = launch(0, critical, POOL)
    standings = [TaskState(critical, [], in_flight=[runs]), TaskState(task("n"), [], request=0, left=2)]
    keep(conv=KEPT)
    assert Elastic().decide(view(*standings, resident=[runs])) == (LaunchPiece("n", 2, 1, 2),)


def test_beside_a_critical_kernel_it_is_one_deep_over_all_tasks():
    critical, n, m = task("c", 1, (POOL,)), task("n"), task("m")
    runs, piece = launch(0, critical, POOL), launch(1, n)
    standings = [TaskState(critical, [], in_flight=[runs]), TaskState(n, [1], in_flight=[piece]), TaskState(m, [1])]
    assert Elastic().decide(view(*standings, resident=[runs])) == ()


def test_on_a_chain_the_kernel_that_runs_counts_and_between_two_the_next_one(keep):
    large = Call("large", Logical((8, 1, 1), (1024, 1, 1)))
    critical = task("c", 1, (POOL, large))
    first, second = launch(0, critical, POOL), launch(1, critical, large, 1)
    keep(conv=KEPT)
    normal, policy = TaskState(task("n"), [1]), Elastic()
    runs = view(TaskState(critical, [], in_flight=[first, second]), normal, resident=[first])
    assert policy.decide(runs) == (LaunchPiece("n", 49, 1, 3),)
    between = view(TaskState(critical, [], in_flight=[second]), normal)
    assert policy.decide(between) == ()


def test_several_critical_kernels_leave_what_is_left_of_all(keep):
    keep(conv=LeftoverTable((*((),) * 6, ((900, PieceShape(7, 2, 2)),), ())))
    call = Call("critical", Logical((11, 1, 1), (450, 1, 1)))  # 3 blocks in its last wave on 8 multiprocessors
    c, d, e = task("c", 1, (call,)), task("d", 2, (call,)), task("e", 3, (call,))
    runs = [launch(number, each, call) for number, each in enumerate((c, d, e))]
    standings = [TaskState(each, [], in_flight=[run]) for each, run in zip((c, d, e), runs, strict=True)]
    normal, policy = TaskState(task("n"), [1]), Elastic()
    assert policy.decide(view(*standings[:2], normal, resident=runs[:2])) == (LaunchPiece("n", 7, 2, 2),)
    assert policy.decide(view(*standings, normal, resident=runs)) == ()  # 3 x 3 blocks leave no multiprocessor


def test_where_nothing_of_one_task_fits_another_may(keep):
    critical = task("c", 1, (Call("large", Logical((8, 1, 1), (768, 1, 1))),))
    runs = launch(0, critical, critical.network.calls[0])
    n, m = TaskState(task("n", calls=(POOL,)), [1]), TaskState(task("m"), [1], served_s=5.0)
    keep(conv=KEPT, pool=LeftoverTable(((),) * 8))
    standings = TaskState(critical, [], in_flight=[runs]), n, m
    assert Elastic().decide(view(*standings, resident=[runs])) == (LaunchPiece("m", 49, 4, 2),)


@pytest.mark.parametrize(("blocks", "threads", "found"), [(5, 512, (LaunchPiece("n", 5),)), (6, 512, ()), (5, 544, ())])
def test_a_kernel_without_elastic_forms_is_launched_whole_or_not_at_all(blocks, threads, found):
    """Of 16 multiprocessors of 1536 threads, 5 are without a block of the last wave, and 512 threads are left."""
    critical = task("c", 1, (Call("critical", Logical((27, 1, 1), (1024, 1, 1))),))
    runs = launch(0, critical, critical.network.calls[0])
    whole = Call("whole", Logical((blocks, 1, 1), (threads, 1, 1)), elastic=False)
    standings = TaskState(critical, [], in_flight=[runs]), TaskState(task("n", calls=(whole,)), [1])
    assert Elastic().decide(view(*standings, resident=[runs], gpu=GPUS[3])) == found


def test_equals_share_by_what_they_were_served():
    n, m = task("n"), task("m")
    assert Elastic().decide(view(TaskState(n, [1], served_s=2.0), TaskState(m, [9], served_s=1.0)))[0].task == "m"
    equal = TaskState(n, [1], served_s=1.0, in_flight=[launch(0, n)]), TaskState(m, [9], served_s=1.0)
    assert Elastic().decide(view(*equal))[0].task == "m"


def test_pieces_are_worked_out_when_they_are_first_needed():
    critical = task("c", 1, (Call("critical", Logical((12, 1, 1), (512, 1, 1))),))
    runs = launch(0, critical, critical.network.calls[0])
    seen = view(TaskState(critical, [], in_flight=[runs]), TaskState(task("n"), [1]), resident=[runs])
    prepared = Elastic()
    prepared.prepare([task("n")], EIGHT)
    assert Elastic().decide(seen) == prepared.decide(seen) != ()
    check_leftovers(seen, prepared.decide(seen))
