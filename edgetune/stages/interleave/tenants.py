"""The workloads that share a device."""

from dataclasses import dataclass

from edgetune.artifacts.profile import Task


@dataclass(frozen=True, slots=True)
class Inference:
    """A workload that answers requests.

    Args:
        name: Unique among the tenants.
        batch_size: Requests per minibatch; fewer are padded to it.
        latency_budget_s: Every request is due this long after it arrived, s.
        rate_per_s: Requests per second as planned; ``None`` where it is unknown (live, closed).
        minibatch_s: Duration of a minibatch, as planned or measured before the run, s.
    """

    name: str
    batch_size: int
    latency_budget_s: float
    rate_per_s: float | None
    minibatch_s: float


@dataclass(frozen=True, slots=True)
class Training:
    """A workload that trains in the time that answers leave, or one that infers without a deadline.

    Args:
        name: Unique among the tenants.
        batch_size: Samples per minibatch.
        minibatch_s: Duration of a minibatch, as planned or measured before the run, s.
        weight: Its share of the time left for training, relative to other jobs.
        task: ``infer`` for a network that infers samples which are always there: the non-urgent one of two inferences
            (Fulcrum, 2025, section 5.4).
    """

    name: str
    batch_size: int
    minibatch_s: float
    weight: float = 1.0
    task: Task = "train"


Tenant = Inference | Training
