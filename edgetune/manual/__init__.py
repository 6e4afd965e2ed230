"""The pages that ``edgetune help TOPIC`` prints: Markdown files in this folder, one for each topic."""

import re
from pathlib import Path

TOPICS: dict[str, str] = {
    "first-steps": "Install, measure a network, choose a power mode.",
    "your-network": "Measure an ONNX network: batches, inputs, operators.",
    "your-command": "Measure any program, or a training script as it is.",
    "your-training": "Measure a Python file that trains; time to accuracy.",
    "engines": "Measure on TensorRT: builds, precisions, DLA, engine files.",
    "your-server": "Measure a language-model server: tokens, first token.",
    "your-table": "Search a table that somebody else measured.",
    "comparing": "Compare tables: faster, slower, or cannot tell.",
    "power-modes": "Name modes, set one, restore the board.",
    "fleet": "One sweep over many boards, by shards or a scheduler.",
    "jetson": "A Jetson board: begin with commands that change nothing.",
    "searching": "The best mode and batch size within budgets.",
    "rooflines": "What a device can do, and what bounds a network on it.",
    "interleaving": "Answer requests in time, and train in the gaps.",
    "memory": "Run several networks in little memory.",
    "kernels": "Best-effort GPU kernels in the gaps of critical ones.",
    "reports": "One page for a browser of everything measured.",
    "python": "Use edgetune from a script or a notebook.",
    "files": "Kinds of files, formats, pipes, warnings.",
    "command-line": "Quantities, options, output, errors, exit codes.",
    "limits": "Limits on what is read, and how to raise one.",
    "security": "What is promised against hostile files, users and faults.",
    "results": "How well it works, and the command that shows it.",
    "studies": "What five studies print, and what edgetune does beside it.",
    "contributing": "Where things are in the code, and how to test.",
}
"""Every topic and its line of help, in reading order; ``NAME.md`` in this folder is its page."""

_LINK = re.compile(r"\[([^\[\]()]+)\]\(([^()\s]+)\)")


def page(topic: str) -> str:
    """Return the Markdown text of a topic, a key of ``TOPICS``, with each link as words for a terminal.

    A link to a page becomes the command that prints that page, a link to a file of the repository becomes its path.
    """
    text = (Path(__file__).parent / f"{topic}.md").read_text(encoding="utf-8")
    return _LINK.sub(lambda link: _in_words(link[1], link[2]), text)


def _in_words(text: str, target: str) -> str:
    """Return what a terminal shows for a link; the target is relative to this folder."""
    name = target.removesuffix(".md")
    if name in TOPICS:
        return f"`edgetune help {name}`" if text == name else f"{text} (`edgetune help {name}`)"
    path = target.removeprefix("../../")
    return text if path.startswith(text.strip("`")) else f"{text} ({path})"
