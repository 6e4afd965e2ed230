"""Contract tests of every policy of ``elastic``, as a test class to subclass.

    class TestMine(ElasticPolicyContract):
        policy = "mine"

runs the policy of that name on random histories: see ``elastic_histories``.
"""

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from random import Random
from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.elastic_histories import ElasticCase, made_case, play
from edgetune.stages.elastic.gpu import Call, Gpu
from edgetune.stages.elastic.kernel import PER_THREAD
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.view import (
    Decision,
    ElasticPolicy,
    Launch,
    LaunchChain,
    LaunchPiece,
    SetQuota,
    TaskState,
    View,
)

_promise = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.differing_executors])
"""The health check warns about one test in several classes; here each policy has a class of its own."""


def check_work(view: View, decisions: Sequence[Decision]) -> None:
    """Check that decisions are for existing work, in an existing shape."""
    states = {state.task.name: state for state in view.tasks}
    in_flight = {launch.number for state in view.tasks for launch in state.in_flight}
    for task in {decision.task for decision in decisions}:
        chains = sum(decision == LaunchChain(task) for decision in decisions)
        pieces = [decision for decision in decisions if isinstance(decision, LaunchPiece) and decision.task == task]
        if chains:
            assert not pieces
            assert states[task].request is None
            assert chains <= len(states[task].arrived_ns)
        assert len(pieces) <= 1, "what is left of a kernel is known once a piece was launched"
        for piece in pieces:
            _check_piece(piece, *next_kernel(states[task]))
            assert in_flight.issuperset(piece.after)


def next_kernel(state: TaskState) -> tuple[Call, int]:
    """Return the next kernel of a task and the number of its remaining blocks, 0 for a task without work."""
    if state.request is None:
        call = state.task.network.calls[0]
        return call, call.logical.blocks if state.arrived_ns else 0
    return state.task.network.calls[state.call], state.left


def _check_piece(piece: LaunchPiece, call: Call, left: int) -> None:
    assert 1 <= piece.count <= left
    if piece.blocks is None:
        assert (piece.count, piece.per_thread) == (call.logical.blocks, 1), "the original kernel is launched as it is"
    else:
        assert call.elastic, "it has no elastic form"
        assert 1 <= piece.blocks <= piece.count
        assert piece.per_thread in PER_THREAD
    if piece.persistent:
        assert call.persistent, "it has no persistent form"
        assert (piece.count, piece.per_thread) == (left, 1), "its blocks take all that is left"


def check_leftovers(view: View, decisions: Sequence[Decision]) -> None:
    """Check that launches fit into the resources left by critical kernels, one launch at a time.

    A critical kernel of N blocks of S threads leaves one other block on each multiprocessor without a block of its last
    wave, N modulo multiprocessors, with the threads that its own block leaves (Miriam, equation 2). The next kernel
    on a critical stream counts as running.
    """
    critical = critical_kernels(view)
    pieces = [decision for decision in decisions if isinstance(decision, LaunchPiece)]
    if not critical or not pieces:
        return
    states = {state.task.name: state for state in view.tasks}
    (piece,) = pieces
    there = {launch.task for s in view.tasks if not s.task.critical for launch in s.in_flight}
    assert there <= {piece.task}, "one was there that does not run before it on the same stream"
    call, _ = next_kernel(states[piece.task])
    blocks = piece.count if piece.blocks is None else piece.blocks
    threads = -(-call.logical.threads // piece.per_thread)
    assert blocks <= view.gpu.sm_count - sum(launch.physical_blocks % view.gpu.sm_count for launch in critical)
    assert threads <= view.gpu.threads_per_sm - sum(launch.physical_threads for launch in critical)


def check_at_once(view: View, decisions: Sequence[Decision]) -> None:
    """Check that critical requests are launched as they come, the most critical first, before anything else."""
    waiting = [state.task for state in view.tasks if state.task.critical and state.arrived_ns]
    if waiting:
        first = max(waiting, key=lambda task: task.priority)
        launched = [each for each in decisions if not isinstance(each, SetQuota)]
        assert launched[:1] == [LaunchChain(first.name)]


def critical_kernels(view: View) -> Sequence[Launch]:
    """Return the running or next kernel of each critical stream."""
    resident = {launch.number for launch in view.resident}
    critical = [state.in_flight for state in view.tasks if state.task.critical and state.in_flight]
    return [next((launch for launch in chain if launch.number in resident), chain[0]) for chain in critical]


def check_launched(launches: Sequence[Launch], case: ElasticCase) -> None:
    """Check that each logical block of each request was launched exactly once, kernel by kernel."""
    parts = defaultdict[tuple[str, int, int], list[Launch]](list)
    for launch in launches:
        parts[launch.task, launch.request, launch.call].append(launch)
    wanted = {
        (task.name, request, place): call
        for task in case.tasks
        for request in range(len(case.arrivals_ns[task.name]) + case.closed[task.name])
        for place, call in enumerate(task.network.calls)
    }
    assert parts.keys() == wanted.keys()
    for key, call in wanted.items():
        blocks = [block for part in parts[key] for block in range(part.first, part.first + part.count)]
        assert sorted(blocks) == list(range(call.logical.blocks))
    for task in case.tasks:
        order = [(launch.request, launch.call) for launch in launches if launch.task == task.name]
        assert order == sorted(order), "a kernel may read what those before it wrote"


class ElasticPolicyContract:
    """The contract tests of a policy. Subclass it in a test module and set ``policy``."""

    policy: ClassVar[str]
    """The policy's name in ``POLICIES``."""
    at_once: ClassVar[bool] = False
    """Whether critical requests are launched on arrival, before any other work."""
    keeps_to_leftovers: ClassVar[bool] = False
    """Whether normal work stays within the resources left by critical kernels."""

    def make(self, gpu: Gpu) -> ElasticPolicy:
        """Return the policy with default arguments, or an equivalent one that is constructed faster."""
        return POLICIES[self.policy]()

    def test_is_in_the_table_under_its_name(self) -> None:
        assert POLICIES[self.policy].name == self.policy

    @_promise
    @given(rng=st.randoms())
    def test_a_history_keeps_what_every_policy_promises(self, rng: Random) -> None:
        def watch(view: View, decisions: Sequence[Decision]) -> None:
            states = [replace(s, arrived_ns=copy(s.arrived_ns), in_flight=copy(s.in_flight)) for s in view.tasks]
            seen = View(view.now_ns, view.gpu, states, [*view.resident])
            assert list(self.make(view.gpu).decide(seen)) == list(decisions), "it decides by what it does not see"
            assert seen == view, "it changes what it sees"
            check_work(view, decisions)
            if self.at_once:
                check_at_once(view, decisions)
            if self.keeps_to_leftovers:
                check_leftovers(view, decisions)

        case = made_case(rng)
        policy = self.make(case.gpu)
        launches = play(policy, case, watch)
        check_launched(launches, case)
        assert play(policy, case) == launches, "the same history goes another way"
