"""How networks slow each other down where the driver shares a device between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from edgetune.artifacts.columns import PositiveFloat


@dataclass(frozen=True, slots=True)
class Contention:
    """How many times as long minibatches take while one of another network is on the device all the time.

    Time slices of equal length are 2 for both. Several values are as likely as each other; a minibatch has one of them.

    Args:
        urgent: Of a network that answers by deadlines, beside one without a deadline.
        background: Of a network without a deadline, beside one that answers.
        source: Which pairs were measured.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    urgent: tuple[PositiveFloat, ...]
    background: tuple[PositiveFloat, ...]
    source: str
