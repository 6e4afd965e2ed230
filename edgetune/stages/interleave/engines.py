"""The engines: how tenants share a device. A new one is one row of ``ENGINES``."""

from dataclasses import dataclass

from edgetune.plugins import Registry


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to share a device.

    Args:
        name: In ``--engine`` and in the rows of a run.
        policy: Name of the policy that decides by default.
        simulated: Whether minibatches are computed on an event clock and not run.
        one_process: Whether all tenants are threads of one process, with streams of two priorities, and not processes.
        lines_up: Whether a minibatch can be sent while another runs, to begin when that ends. Only then can a policy
            decide for the device as a whole; otherwise the driver shares it out.
        shares: Name of the engine whose sharing by the driver a simulation models, see ``Device.contention``.
    """

    name: str
    policy: str
    simulated: bool = False
    one_process: bool = False
    lines_up: bool = False
    shares: str = "native"


ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        engine.name: engine
        for engine in (
            Engine("managed", "managed", lines_up=True),
            Engine("native", "native"),
            Engine("streams", "native", one_process=True),
            Engine("simulated", "managed", simulated=True, lines_up=True),
            Engine("simulated-native", "native", simulated=True),
            Engine("simulated-streams", "native", simulated=True, shares="streams"),
        )
    },
)
