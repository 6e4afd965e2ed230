"""A corpus of small networks that edgetune did not make: each must be measured as it is, or refused."""

from foreign import control, elements, exports, files, layouts, light, sizes, traps
from foreign.network import ForeignNetwork

NETWORKS: dict[str, ForeignNetwork] = {
    network.name: network
    for module in (layouts, control, elements, files, exports, light, sizes, traps)
    for network in module.NETWORKS
}
"""By name."""
