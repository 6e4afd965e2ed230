"""The table of policies.

A new policy is a class, one row here and one line in the tests (``tests/contracts/elastic_contract.py``).
"""

from collections.abc import Iterable

from edgetune.plugins import Registry
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.view import ElasticPolicy

POLICIES: Registry[type[ElasticPolicy]] = Registry(
    "policy",
    {
        "sequential": "edgetune.stages.elastic.policies.simple:Sequential",
        "multistream": "edgetune.stages.elastic.policies.simple:MultiStream",
        "barrier": "edgetune.stages.elastic.policies.simple:Barrier",
        "elastic": "edgetune.stages.elastic.policies.elastic:Elastic",
        "persistent": "edgetune.stages.elastic.policies.elastic:Persistent",
    },
    group="edgetune.policies",
    prefix="elastic.",
    contract=ElasticPolicy,
)


def make_policy(name: str, tasks: Iterable[GpuTask], gpu: Gpu) -> ElasticPolicy:
    """Return a new policy, whose look-ups of pieces are computed now and not while a GPU waits.

    Args:
        name: In the table.
        tasks: The tasks that it decides for.
        gpu: The GPU that they share.

    Raises:
        InputError: there is no such policy; the hint names the nearest.
    """
    policy = POLICIES.find(name)()
    if hasattr(policy, "prepare"):
        policy.prepare(tasks, gpu)
    return policy
