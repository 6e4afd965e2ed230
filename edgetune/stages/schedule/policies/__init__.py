"""The policies, the one table of them, and how they are chosen by words: ``masa``, ``masa:code``, ``bulk:external``.

A new policy is one class, one row here and one line in the tests (``tests/contracts/schedule_contract.py``); a package
outside adds one by an entry point ``schedule.NAME`` of the group ``edgetune.policies``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.plugins import Registry
from edgetune.stages.schedule.executor import FORMS, Form
from edgetune.stages.schedule.policies.policy import SchedulePolicy

POLICIES: Registry[type[SchedulePolicy]] = Registry(
    "policy",
    {
        "bulk": "edgetune.stages.schedule.policies.policy:Bulk",
        "linear": "edgetune.stages.schedule.policies.policy:Linear",
        "deepeye": "edgetune.stages.schedule.policies.policy:DeepEye",
        "partial": "edgetune.stages.schedule.policies.policy:Partial",
        "fcfs": "edgetune.stages.schedule.policies.policy:FirstComeFirstServed",
        "sjf": "edgetune.stages.schedule.policies.policy:ShortestJobFirst",
        "snf": "edgetune.stages.schedule.policies.policy:ShortestNetworkFirst",
        "rr": "edgetune.stages.schedule.policies.policy:RoundRobin",
        "masa": "edgetune.stages.schedule.policies.policy:Masa",
        "reuse": "edgetune.stages.schedule.policies.reuse:Reuse",
        "optimum": "edgetune.stages.schedule.policies.optimum:Optimum",
    },
    group="edgetune.policies",
    prefix="schedule.",
    contract=SchedulePolicy,
)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy to run.

    Args:
        words: As rows call it: its name, and its variant where one was named.
        name: Its name.
        options: Arguments that it is made with.
        form: The form of the networks: layer by layer, or whole in one of two forms.
    """

    words: str
    name: str
    options: dict[str, str]
    form: Literal["layers"] | Form

    @property
    def policy(self) -> type[SchedulePolicy]:
        """The class of the policy."""
        return POLICIES[self.name]

    def make(self, **more: object) -> SchedulePolicy:
        """Return a new one, made with more arguments than were named."""
        return self.policy(**self.options, **more)


def choose_policies(words: str) -> list[PolicyChoice]:
    """Return the policies of a list in words.

    Args:
        words: Separated by commas; ``NAME:VARIANT`` for one of the variants of a policy, or one of the forms of whole
            networks for a policy that takes networks whole: ``default`` (ONNX Runtime as it comes) or ``external``
            (weights in a file of their own, mapped and not packed).

    Raises:
        InputError: there is no such policy or variant, or one is named twice.
    """
    found = [_chosen(word.strip()) for word in words.split(",")]
    if len({each.words for each in found}) < len(found):
        raise InputError(f"--policy names one twice: {words}", "name it once; --turns runs it more often")
    return found


def make_policy(words: str) -> SchedulePolicy:
    """Return a new policy from its name, or from name and variant, e.g. ``masa:code``.

    Raises:
        InputError: there is no such policy, or it has no such variant.
    """
    return _chosen(words).make()


def _chosen(word: str) -> PolicyChoice:
    name, _, asked = word.partition(":")
    policy = POLICIES.find(name)
    known: Sequence[str] = FORMS if policy.whole else policy.variants
    if asked:
        if not known:
            raise InputError(f"policy {name} has no variants, so that there is no {word!r}", f"write {name}")
        choose(asked, known, what=f"variant of {name}")
    if policy.whole:
        return PolicyChoice(word, name, {}, cast("Form", asked or known[0]))
    return PolicyChoice(word, name, {"variant": asked} if asked else {}, "layers")
