"""The pages that ``edgetune help TOPIC`` prints: Markdown files in this folder, one for each topic."""

from __future__ import annotations

from pathlib import Path

TOPICS: dict[str, str] = {
    "security": "What edgetune promises against hostile files, other users and faults, and what it does not.",
}
"""Every topic and its line of help; ``NAME.md`` in this folder is its page."""


def page(topic: str) -> str:
    """Return the Markdown text of a topic, a key of ``TOPICS``."""
    return (Path(__file__).parent / f"{topic}.md").read_text(encoding="utf-8")
