"""The policies of ``edgetune schedule run``, in turns: requests made, runs done, what came of them kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.timeline import TimelineRow
from edgetune.cli.screen import Screen
from edgetune.cli.stopping import noting_signals

if TYPE_CHECKING:
    from edgetune.schedule.network import Network
    from edgetune.schedule.request import Request


@dataclass(frozen=True, slots=True)
class Ran:
    """What one turn of one policy came to.

    Args:
        rows: Of the timeline.
        conditions: What holds for this policy, for the header.
        notes: For people.
    """

    rows: Sequence[TimelineRow]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


Runner = Callable[[str, int, "Sequence[Request]", "Callable[[], bool]"], Ran]
"""Runs a policy, given in words, in one of its turns on requests, until it is asked to stop."""


@dataclass(slots=True)
class Outcome:
    """What came of all turns.

    Args:
        rows: Of all policies.
        conditions: Of each policy.
        notes: For people.
        stopped_by: Number of the signal that ended the run early.
        failure: What ended it, other than that: raised again once the rows are written.
    """

    rows: list[TimelineRow] = field(default_factory=list)
    conditions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stopped_by: int | None = None
    failure: BaseException | None = None


def run_turns(
    policies: Sequence[str], turns: int, requests: Callable[[int], Sequence[Request]], run: Runner, screen: Screen
) -> Outcome:
    """Run every policy so often, in alternation, each turn on the same requests; a signal ends it in order.

    Args:
        policies: In words.
        turns: How often each.
        requests: Of a turn, by its number from 0.
        run: Runs one.
        screen: For progress.
    """
    outcome = Outcome()
    try:
        with noting_signals(screen, "the tasks that run") as stop:
            for turn in range(turns):
                asked = requests(turn)
                for policy in policies[:: -1 if turn % 2 else 1]:
                    if stop:
                        break
                    screen.say(f"{policy}, turn {turn + 1}" if turns > 1 else policy)
                    ran = run(policy, turn, asked, lambda: bool(stop))
                    outcome.rows += ran.rows
                    outcome.conditions[policy] = ran.conditions
                    outcome.notes += [note for note in ran.notes if note not in outcome.notes]
    except BaseException as error:
        outcome.failure = error
    outcome.stopped_by = stop[0] if stop else None
    return outcome


def simulated(networks: Mapping[str, Network], *, budget_bytes: int, workers: int, cores: int | None) -> Runner:
    """Return what runs policies on the clock.

    Args:
        networks: By name.
        budget_bytes: What may be held; also what there is, so that what takes more pays for paging.
        workers: How many tasks run at a time.
        cores: Of the machine where layers were measured; ``None`` for as many as there are workers.
    """
    from edgetune.schedule.paging import Paging
    from edgetune.schedule.policies import make_policy
    from edgetune.schedule.simulated import Machine
    from edgetune.schedule.simulation import simulate
    from edgetune.schedule.timeline import timeline_rows

    machine = Machine(cores=cores or workers, memory_bytes=budget_bytes, paging=Paging())

    def run(policy: str, turn: int, requests: Sequence[Request], stopped: Callable[[], bool]) -> Ran:  # noqa: ARG001
        done = simulate(
            make_policy(policy), networks, requests, budget_bytes=budget_bytes, workers=workers, machine=machine
        )
        rows = timeline_rows(done.records, done.networks, policy=policy, turn=turn)
        overhead = {"decisions": done.overhead.decisions, "decisions_s": done.overhead.decisions_s}
        return Ran(rows, {"overhead": overhead})

    return run
