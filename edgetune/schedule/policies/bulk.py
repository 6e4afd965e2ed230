"""Whole networks, one after another: what everybody does who has one network and memory for it."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.linear import Linear


class Bulk(Linear):
    """All weights are loaded, then everything is executed, then all is unloaded; the request that came first first.

    That is ``linear`` with networks of one layer, which needs the memory of a whole network.
    """

    name: ClassVar[str] = "bulk"
    whole: ClassVar[bool] = True
