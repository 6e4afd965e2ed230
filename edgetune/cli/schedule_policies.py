"""Policies as written on the command line: ``masa``, ``masa:code``, ``bulk:external``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from edgetune.choices import choose
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.schedule.executor import Form
    from edgetune.schedule.policies.policy import SchedulePolicy


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy to run.

    Args:
        words: As rows call it: its name, and its variant where one was named.
        name: Its name.
        options: What it is made with.
        form: How networks are run: layer by layer, or whole in one of two forms.
    """

    words: str
    name: str
    options: dict[str, str]
    form: Literal["layers"] | Form

    @property
    def plans_ahead(self) -> bool:
        """Whether it follows a plan for requests that have yet to come, where these are known."""
        from edgetune.schedule.policies import find_policy

        return find_policy(self.name).plans_ahead

    def make(self, **more: object) -> SchedulePolicy:
        """Return a new one, made with more than was said of it."""
        from edgetune.schedule.policies import find_policy

        return find_policy(self.name)(**self.options, **more)


def choose_policies(words: str, variant: str | None) -> list[ChosenPolicy]:
    """Return the policies of a list in words.

    Args:
        words: Separated by commas; ``NAME:VARIANT`` for one of the variants of a policy, or one of the forms of whole
            networks for a policy that takes networks whole: ``default`` (ONNX Runtime as it comes) or ``external``
            (weights in a file of their own, mapped and not packed).
        variant: For those that have it and do not say.

    Raises:
        InputError: there is no such policy or variant, or one is named twice.
    """
    found = [_chosen(word.strip(), variant) for word in words.split(",")]
    if variant is not None and not any(variant in each.words.partition(":")[2] for each in found):
        raise InputError(f"--variant {variant}: none of {words} has it", "e.g. --policy masa --variant code")
    named = [each.words for each in found]
    if len(set(named)) < len(named):
        raise InputError(f"--policy names one twice: {words}", "name it once; turns run it more often")
    return found


def _chosen(word: str, variant: str | None) -> ChosenPolicy:
    from edgetune.schedule.policies import find_policy

    name, _, asked = word.partition(":")
    policy = find_policy(name)
    known = _variants(policy)
    if not asked and variant is not None and variant in known:
        asked, word = variant, f"{name}:{variant}"
    if asked:
        if not known:
            raise InputError(f"policy {name} has no variants, so that there is no {word!r}", f"write {name}")
        choose(asked, known, what=f"variant of {name}")
    if policy.whole:
        return ChosenPolicy(word, name, {}, cast("Form", asked or known[0]))
    return ChosenPolicy(word, name, {"variant": asked} if asked else {}, "layers")


def _variants(policy: type[SchedulePolicy]) -> Sequence[str]:
    from edgetune.schedule.executor import FORMS

    return FORMS if policy.whole else policy.variants
