"""An older layout is brought to today's, one version at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetune.artifacts import profile
from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.io import upgrade
from edgetune.artifacts.kinds import KINDS, class_of, current_version
from edgetune.artifacts.profile import Profile
from edgetune.errors import InputError


@pytest.mark.parametrize("kind", KINDS)
def test_every_older_version_of_every_kind_has_its_step(kind: str) -> None:
    assert len(class_of(kind).UPGRADES) == current_version(kind) - 1


def test_steps_run_in_order_from_the_version_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(word: str) -> object:
        return lambda raw: replace(raw, body=[*raw.body, word])

    monkeypatch.setattr(profile, "VERSION", 3)
    monkeypatch.setattr(Profile, "UPGRADES", (step("to 2"), step("to 3")))

    def bodies(version: int) -> object:
        return upgrade(Raw({"kind": "profile", "version": version}, []), kind="profile", name="it").body

    assert [bodies(1), bodies(2), bodies(3)] == [["to 2", "to 3"], ["to 3"], []]
    with pytest.raises(InputError, match="newer edgetune: profile version 4, known up to 3"):
        bodies(4)
