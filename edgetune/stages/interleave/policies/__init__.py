"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``tests/contracts/policy_contract.py``); a package
outside adds one by an entry point ``interleave.NAME`` of the group ``edgetune.policies``.
"""

from edgetune.plugins import Registry
from edgetune.stages.interleave.policies.policy import NamedInterleavePolicy

POLICIES: Registry[type[NamedInterleavePolicy]] = Registry(
    "policy",
    {
        "managed": "edgetune.stages.interleave.policies.managed:Managed",
        "native": "edgetune.stages.interleave.policies.policy:Native",
        "native-full": "edgetune.stages.interleave.policies.policy:NativeFull",
    },
    group="edgetune.policies",
    prefix="interleave.",
    contract=NamedInterleavePolicy,
)
