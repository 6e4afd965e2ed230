"""Shortest network first: requests for the network that takes the least in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.schedule.policies.policy import in_order
from edgetune.schedule.view import LayerTask, RequestState, View


class ShortestNetworkFirst:
    """Requests by what their network takes alone, however much of it is done; executions before loads."""

    name: ClassVar[str] = "snf"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request for the shortest network."""
        return in_order(view, shortest_first(view))


def shortest_first(view: View) -> Sequence[RequestState]:
    """Return requests by what their network takes alone; in order of arrival where that is the same."""
    networks = {state.network.name: state.network for state in view.requests.values()}
    service_s = {name: network.service_s for name, network in networks.items()}
    return sorted(view.requests.values(), key=lambda state: service_s[state.network.name])
