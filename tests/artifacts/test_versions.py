"""An older layout is brought to today's, one version at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetune.artifacts import versions
from edgetune.artifacts.versions import CURRENT, MADE_BY, UPGRADES, Raw, upgrade
from edgetune.errors import InputError


def test_every_older_version_of_every_kind_has_its_step() -> None:
    assert set(UPGRADES) == {(kind, version) for kind, newest in CURRENT.items() for version in range(1, newest)}
    assert set(MADE_BY) == set(CURRENT)


def test_steps_run_in_order_from_the_version_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(word: str) -> object:
        return lambda raw: replace(raw, body=[*raw.body, word])

    monkeypatch.setattr(versions, "CURRENT", {"profile": 3})
    monkeypatch.setattr(versions, "UPGRADES", {("profile", 1): step("to 2"), ("profile", 2): step("to 3")})

    def bodies(version: int) -> object:
        return upgrade(Raw({"kind": "profile", "version": version}, []), kind="profile", name="it").body

    assert [bodies(1), bodies(2), bodies(3)] == [["to 2", "to 3"], ["to 3"], []]
    with pytest.raises(InputError, match="newer edgetune: profile version 4, known up to 3"):
        bodies(4)
