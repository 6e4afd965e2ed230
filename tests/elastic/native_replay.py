"""Replays a run of the native launcher by the loop and the policy in Python: both have to make the same launches.

ends and launches as the launcher recorded them, in order ---> ElasticLoop
  an end      becomes an event of the backend
  a launch    the policy is asked what it decides now, and the loop has to launch just that
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.errors import EdgetuneError
from edgetune.serving.clock import earliest_ns
from edgetune.serving.supervision import Supervision
from edgetune.stages.elastic.backend import Launch, LaunchEvent, LaunchRecord, RequestRecord
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.native.loop import NativeLoop
from edgetune.stages.elastic.view import Decision, ElasticPolicy, View

_LAUNCH, _END = 1, 0  # of two at one time, an end is seen first


class _Recorded:
    """A backend that makes the recorded events happen, and a policy that is asked where a launch was recorded."""

    name = "recorded"

    def __init__(self, policy: ElasticPolicy, native: NativeLoop) -> None:
        self._policy, self._now_ns, self.asked = policy, native.begin_ns, 0
        self._launches = {each.launch.number: each for each in native.launches}
        chained: set[tuple[str, int]] = set()
        items = []
        for each in sorted(native.launches, key=lambda each: each.launch.number):
            launch = each.launch
            items.append((each.ended_ns, _END, launch.number))
            chain = launch.blocks is None and (launch.task, launch.request) in chained
            if not chain or native.seen_ns[launch.number] != native.seen_ns[launch.number - 1]:
                items.append((native.seen_ns[launch.number], _LAUNCH, launch.number))
            chained.add((launch.task, launch.request))
        self.items = sorted(items, reverse=True)
        self.coming_ns: Callable[[], int | None] = lambda: None

    def now_ns(self) -> int:
        return self._now_ns

    def decide(self, view: View) -> Sequence[Decision]:
        if not self.items or self.items[-1][1] == _END or self.items[-1][0] > self._now_ns:
            return ()
        number = self.items.pop()[-1]
        decisions = self._policy.decide(view)
        assert decisions, f"{self._launches[number].launch} was launched, and the policy decides nothing: {view}"
        assert decisions[0].task == self._launches[number].launch.task, view
        self.asked += 1
        return decisions[:1]

    def decided(self) -> None:
        pass

    def launch(self, launch: Launch) -> None:
        assert launch == self._launches[launch.number].launch

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        coming_ns = self.coming_ns()
        if self.items and coming_ns is not None and self._now_ns < coming_ns <= self.items[-1][0]:
            self._now_ns = coming_ns  # the launcher takes requests in before what ends later
            return ()
        if not self.items:
            assert until_ns is not None
            self._now_ns = max(self._now_ns + 1, until_ns)
            return ()
        at_ns, kind, _ = self.items[-1]
        self._now_ns = max(self._now_ns, at_ns)
        if kind == _LAUNCH:
            return ()
        found = list[LaunchEvent]()
        while self.items and self.items[-1][:2] == (at_ns, _END):  # the launcher sees all at one time
            number = self.items.pop()[-1]
            started_ns = self._launches[number].started_ns
            assert started_ns is not None
            found += [LaunchEvent(number, "started", started_ns), LaunchEvent(number, "ended", at_ns)]
        return found


class _Replay(ElasticLoop):
    """A loop that goes on while launches are recorded: the launcher had not decided yet where nothing ran."""

    def coming_ns(self) -> int | None:
        return earliest_ns(each.source.next_ns() for each in self._progress.values() if not each.source.ended)

    def _turn(self) -> bool:
        try:
            return super()._turn()
        except EdgetuneError:
            if not self._backend.items:
                raise
            self._backend.wait(None)
            return True


def replay(policy: ElasticPolicy, native: NativeLoop, tasks, *, gpu, duration_s: float, seed: int) -> int:
    """Replay a run; return how many decisions were compared.

    Raises:
        AssertionError: the policy decides otherwise, or requests end otherwise.
    """
    recorded = _Recorded(policy, native)
    loop = _Replay(
        recorded, recorded, tasks, gpu=gpu, duration_s=duration_s, seed=seed,
        supervision=Supervision(poll_interval_ns=1),
    )  # fmt: skip
    recorded.coming_ns = loop.coming_ns
    loop.run()
    assert _launched(loop.launches) == _launched(native.launches)
    assert _answered(loop.requests) == _answered(native.requests)
    return recorded.asked


def _launched(records: Sequence[LaunchRecord]) -> list[tuple[object, ...]]:
    return sorted((each.launch.number, each.launch, each.started_ns, each.ended_ns) for each in records)


def _answered(records: Sequence[RequestRecord]) -> list[tuple[object, ...]]:
    return sorted((each.task.name, each.number, each.arrived_ns, each.outcome) for each in records)
