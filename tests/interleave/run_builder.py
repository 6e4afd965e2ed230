"""Runs for tests: rows written by hand, and one with the numbers of a real board, which nothing has run."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow

TENANTS = (
    {"name": "mobilenet", "task": "infer", "batch_size": 16, "rate_per_s": 60.0, "latency_budget_s": 0.4},
    {"name": "resnet18", "task": "train", "batch_size": 16},
)
BUDGET_S = 0.4
ANSWER_S = 0.045
TRAIN_S = 0.062
Of = Callable[[float], int]


def run_of(rows: Sequence[RunRow], *, tenants: Sequence[object] = (), **conditions: object) -> Run:
    """A run of these rows."""
    header = Header(
        "run", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", inputs={"tenants": list(tenants)} if tenants else {},
        conditions={"device": "host", "simulated": False, **conditions},
    )  # fmt: skip
    return Run(header, tuple(rows))


def request(
    arrived_s: float, started_s: float, finished_s: float, *, tenant: str = "net", number: int = 0,
    budget_s: float = 0.1, engine: str = "managed", turn: int = 0, batch_size: int = 1, samples: int = 1,
) -> RunRow:  # fmt: skip
    """A request that was answered."""
    return RunRow(
        engine, "request", finished_s, tenant, turn, arrived_s, started_s, arrived_s + budget_s,
        finished_s <= arrived_s + budget_s, number, batch_size, samples,
    )  # fmt: skip


def abandoned(arrived_s: float, ended_s: float, *, tenant: str = "net", budget_s: float = 0.1) -> RunRow:
    """A request that nobody answered."""
    row = request(arrived_s, ended_s, ended_s, tenant=tenant, budget_s=budget_s)
    return replace(row, started_s=None, minibatch=None, samples=None, met=False, status="abandoned", reason="it ended")


def trained(
    started_s: float, finished_s: float, *, tenant: str = "learner", number: int = 0, loss: float | None = None,
    engine: str = "managed", turn: int = 0, samples: int = 16,
) -> RunRow:  # fmt: skip
    """A training minibatch."""
    return RunRow(
        engine, "train", finished_s, tenant, turn, started_s=started_s, minibatch=number, batch_size=samples,
        samples=samples, loss=loss,
    )  # fmt: skip


def power(at_s: float, power_w: float, budget_w: float | None = None, *, engine: str = "managed") -> RunRow:
    """A reading of the power sensor."""
    return RunRow(engine, "power", at_s, power_w=power_w, power_budget_w=budget_w)


def study_run(duration_s: float = 60.0, seed: int = 0) -> Run:
    """Three engines, two turns each, as one would see them on a board: managed keeps its deadlines, native does not."""
    rows: list[RunRow] = []
    for turn in (0, 1):
        for number, engine in enumerate(("managed", "native", "streams")):
            rng = random.Random(f"{seed} {turn} {number}")
            rows += _turn(engine, turn, rng, duration_s)
    return run_of(rows, tenants=TENANTS, device="twin:orin-agx", simulated=True, duration_s=duration_s)


def _turn(
    engine: str, turn: int, rng: random.Random, duration_s: float, *, rate: Of = lambda t: 60,
    batch_size: Of = lambda t: 16,
) -> list[RunRow]:  # fmt: skip
    arrivals, now = [], 0.0
    while now < duration_s:
        now += rng.expovariate(rate(now))
        arrivals.append(now)
    arrivals.pop()
    if engine == "managed":
        rows = _managed(arrivals, rng, duration_s, batch_size)
    else:
        rows = _shared(engine, arrivals, rng, duration_s)
    readings = [power(step / 4, 28.0 + rng.gauss(0, 0.6), 35.0) for step in range(int(duration_s * 4))]
    return [replace(row, engine=engine, turn=turn) for row in (*rows, *readings)]


def _managed(
    arrivals: list[float], rng: random.Random, duration_s: float, batch_size: Of = lambda t: 16
) -> list[RunRow]:
    """Serve a full batch, or what must go; train while the oldest request leaves time for it."""
    rows, queue, now, number, steps = [], list(arrivals), 0.0, 0, 0
    while now < duration_s:
        waiting = [at for at in queue[:64] if at <= now]
        batch = batch_size(now)
        due = waiting[0] + BUDGET_S - ANSWER_S * 1.1 if waiting else now + BUDGET_S
        if len(waiting) >= batch or (waiting and due - TRAIN_S * 1.1 <= now):
            taken, queue = waiting[:batch], queue[len(waiting[:batch]) :]
            end = now + batch / 16 * ANSWER_S * rng.gauss(1, 0.02)
            rows += [_answer("managed", at, (now, end), number, (len(taken), batch)) for at in taken]
            number, now = number + 1, end
        else:
            end = now + TRAIN_S * rng.gauss(1, 0.02)
            rows.append(_step(now, end, steps, rng))
            steps, now = steps + 1, end
    return rows + [abandoned(at, now, tenant="mobilenet", budget_s=BUDGET_S) for at in queue]


def _shared(engine: str, arrivals: list[float], rng: random.Random, duration_s: float) -> list[RunRow]:
    """Both at once, each slowed down by the other, now and then by much."""
    slow = 2.6 if engine == "native" else 1.9
    rows, now, steps = [], 0.0, 0
    while now < duration_s:
        end = now + TRAIN_S * 1.22 * rng.gauss(1, 0.08)
        rows.append(_step(now, end, steps, rng))
        now, steps = end, steps + 1
    free = 0.0
    for number in range(len(arrivals) // 16):
        taken = arrivals[16 * number : 16 * number + 16]
        start = max(taken[-1], free)
        free = start + ANSWER_S * slow * rng.lognormvariate(0, 0.45)
        rows += [_answer(engine, at, (start, free), number, (16, 16)) for at in taken]
    return rows


def _answer(engine: str, arrived: float, span: tuple[float, float], number: int, sizes: tuple[int, int]) -> RunRow:
    samples, batch_size = sizes
    return request(
        arrived, *span, tenant="mobilenet", number=number, budget_s=BUDGET_S, engine=engine, batch_size=batch_size,
        samples=samples,
    )  # fmt: skip


def _step(start: float, end: float, number: int, rng: random.Random) -> RunRow:
    loss = 0.4 + 2.0 / (1 + number / 150) + rng.gauss(0, 0.05)
    return trained(start, end, tenant="resnet18", number=number, loss=loss)
