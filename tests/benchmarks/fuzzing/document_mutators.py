"""Damage to documents: YAML and JSON whose keys and values are otherwise as they should be."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from fuzzing.values import HOSTILE, NUMBERS, STRUCTURES, YAML_PIECES

Place = tuple[Any, Any]
"""A container and the key of one value in it."""

_MARK = "edgetunefuzzpiece"


def damaged_yaml(rng: Random, data: bytes) -> bytes:
    """Return a YAML document with one to three values, keys or pieces of text changed."""
    document = _changed(rng, yaml.load(data, yaml.CSafeLoader), pieces=True)
    flow = rng.choice((None, None, True, False))
    text = yaml.dump(document, sort_keys=False, default_flow_style=flow, allow_unicode=True, width=200)
    for number in range(3):
        text = text.replace(f"{_MARK}{number}", rng.choice(YAML_PIECES))
    return text.encode("utf-8", "surrogatepass")


def damaged_json(rng: Random, data: bytes) -> bytes:
    """Return a JSON document with one to three values or keys changed; NaN and infinities as Python writes them."""
    return json.dumps(_changed(rng, json.loads(data), pieces=False), ensure_ascii=rng.random() < 0.5).encode()


def damaged_head(rng: Random, text: str) -> str:
    """Return the JSON header of a table, damaged as a document or as text."""
    if rng.random() < 0.2:
        return rng.choice(
            (text[: rng.randrange(len(text))], "null", "[]", "1", "", "[" * 20_000, '{"a":' * 20_000, "NaN")
        )
    return json.dumps(_changed(rng, json.loads(text), pieces=False))


def _changed(rng: Random, document: Any, *, pieces: bool) -> Any:
    document = copy.deepcopy(document)
    for number in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return rng.choice(STRUCTURES)
        holder, key = rng.choice(places)
        _change(rng, holder, key, piece=f"{_MARK}{number}" if pieces and rng.random() < 0.2 else None)
    return document


def _places(document: Any) -> Iterator[Place]:
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield document, key
            yield from _places(value)


def _change(rng: Random, holder: Any, key: Any, *, piece: str | None) -> None:
    """Change one value of a mapping or a list, or its key."""
    if piece is not None:
        holder[key] = piece
        return
    roll = rng.random()
    if roll < 0.12:
        del holder[key]
    elif roll < 0.24 and isinstance(holder, dict):
        holder[rng.choice((f"{key}x", f"{key}_", str(key)[:-1], str(key).upper(), *HOSTILE))] = holder.pop(key)
    elif roll < 0.34 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * rng.choice((1, 1, 2, 300))
    elif roll < 0.44:
        holder[key] = _deep(rng, holder[key])
    elif roll < 0.62:
        holder[key] = rng.choice(NUMBERS)
    elif roll < 0.76:
        holder[key] = rng.choice(HOSTILE)
    elif roll < 0.84 and isinstance(holder[key], str):
        holder[key] = _near(rng, holder[key])
    elif roll < 0.92 and isinstance(holder[key], int | float):
        holder[key] = _scaled(rng, holder[key])
    else:
        holder[key] = copy.deepcopy(rng.choice(STRUCTURES))


def _scaled(rng: Random, value: float) -> Any:
    return rng.choice((-value, value + 1, str(value), value / 2, float(value) * 1e12, [value], bool(value)))


def _deep(rng: Random, value: Any) -> Any:
    for _ in range(rng.choice((1, 3, 60))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def _near(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        (text[:at], text[:at] + rng.choice(HOSTILE) + text[at:], text * 2, f" {text} ", text.swapcase(), f"zoo:{text}")
    )
