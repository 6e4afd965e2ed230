"""A page for a browser: sections of notes, tables, figures and commands in one HTML file that loads nothing.

    page = Page("Report")
    section = page.section("profile of resnet18", simulated=True)
    section.note("..."); section.table(columns, rows, keys=...); section.figure(draw, "time against power")
    page.data()

A section is written through ``SectionWriter``, which the terminal implements too. Figures are those of ``--plot``, as
parts of the page (``svg``); rows of tables and marks of figures with the same key belong together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Protocol

from edgetune.errors import DeviceError, EdgetuneError
from edgetune.plotting.figure_file import bounded, embedded_svg, require_figure, visible_lines
from edgetune.plotting.style import Figure, styled

_LONG = 30
"""Rows from which a table is folded."""
_MOST_ROWS = 2000
"""Most rows of a table: a page of more is large, and nobody reads them."""

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Names of columns, and rows. A column whose name ends in ``>`` is aligned to the right."""


class SectionWriter(Protocol):
    """Takes the contents of a section, from top to bottom; a terminal shows no figures and no commands."""

    def heading(self, text: str) -> None:
        """Begin a part of the section."""

    def answer(self, text: str) -> None:
        """Write the sentence that matters most."""

    def note(self, text: str) -> None:
        """Write a paragraph."""

    def space(self) -> None:
        """Leave a line free, on a terminal."""

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *,
        title: str = "", opened: bool = True, keys: Sequence[object] | None = None,
    ) -> None:  # fmt: skip
        """Write a table.

        Args:
            columns: Names of the columns; those that end in ``>`` are aligned to the right.
            rows: A cell each; ``None`` is shown as a dash. A cell with a ``value`` is sorted by it.
            title: A table with a title can be folded away.
            opened: Whether it is shown unfolded.
            keys: A key of each row, which marks of the section's figures have too: see ``plotting.rows``; ``None``
                for a row without a mark.
        """

    def figure(self, draw: Callable[[], Figure], name: str) -> None:
        """Draw a figure; one that cannot be drawn is replaced by the reason.

        Args:
            draw: Returns the figure.
            name: Its name for screen readers.
        """

    def command(self, text: str) -> None:
        """Write a command to type."""


@dataclass(frozen=True, slots=True)
class _Text:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _TableBlock:
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str
    opened: bool
    keys: Sequence[str | None] | None
    kind: ClassVar[str] = "table"

    def lines(self) -> Iterator[tuple[str | None, list[tuple[str, bool, object]]]]:
        """Yield the key of each row and its cells: text, whether it is aligned right, and the value to sort by."""
        right = [name.endswith(">") for name in self.columns]
        for number, row in enumerate(self.rows):
            cells = [
                ("-" if cell is None else str(cell), aligned, getattr(cell, "value", None))
                for cell, aligned in zip(row, right, strict=True)
            ]
            yield None if self.keys is None else self.keys[number], cells


@dataclass(frozen=True, slots=True)
class _FigureBlock:
    name: str
    svg: str
    zooms: bool
    kind: ClassVar[str] = "figure"


@dataclass(slots=True)
class Section:
    """A section of a page; see ``SectionWriter``.

    Args:
        title: Its title.
        key: Its identifier in the page.
        simulated: Whether its figures come from a model.
    """

    title: str
    key: str
    simulated: bool = False
    blocks: list[Any] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """See ``SectionWriter``."""
        self.blocks.append(_Text("heading", text))

    def answer(self, text: str) -> None:
        """See ``SectionWriter``."""
        self.blocks.append(_Text("answer", text))

    def note(self, text: str) -> None:
        """See ``SectionWriter``."""
        self.blocks.append(_Text("note", text))

    def command(self, text: str) -> None:
        """See ``SectionWriter``."""
        self.blocks.append(_Text("command", text))

    def space(self) -> None:
        """Do nothing: the style sheet leaves space."""

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *,
        title: str = "", opened: bool = True, keys: Sequence[object] | None = None,
    ) -> None:  # fmt: skip
        """See ``SectionWriter``."""
        named = None if keys is None else [None if key is None else f"{self.key}.{key}" for key in keys]
        long = len(rows) > _LONG and not title
        title = f"{len(rows):,} rows" if long else title
        self.blocks.append(_TableBlock(columns, rows[:_MOST_ROWS], title, opened and not long, named))
        if len(rows) > _MOST_ROWS:
            self.note(f"the first {_MOST_ROWS:,} of {len(rows):,} rows; the file has all")

    def figure(self, draw: Callable[[], Figure], name: str) -> None:
        """See ``SectionWriter``."""
        try:
            with bounded():
                figure = draw()
                svg, zooms = embedded_svg(figure, name, f"{self.key}.", f"{self.key}-{len(self.blocks)}-")
        except EdgetuneError as error:
            if isinstance(error, DeviceError):
                raise
            self.note(f"{name} is not drawn: {error.message} ({error.hint})")
            return
        self.blocks.append(_FigureBlock(name, svg, zooms))


class Page:
    """A page of sections.

    Args:
        title: Its title.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.notes: list[str] = []
        self.sections: list[Section] = []

    @property
    def simulated(self) -> bool:
        """Whether a section shows figures of a model."""
        return any(section.simulated for section in self.sections)

    def section(self, title: str, *, simulated: bool = False) -> Section:
        """Begin a section."""
        self.sections.append(Section(title, f"s{len(self.sections) + 1}", simulated))
        return self.sections[-1]

    def data(self) -> bytes:
        """Return the file of the page.

        Raises:
            DeviceError: Jinja2 is not installed.
        """
        template = _environment().from_string(_file("page.html"))
        return bytes(template.render(page=self, style=_file("page.css"), script=_file("page.js")).encode())


def _environment() -> Any:
    """Return Jinja2's environment, in which every text is escaped and visible."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise DeviceError("pages need Jinja2, which is not installed", "pip install 'edgetune[plot]'") from None
    return Environment(
        autoescape=True, trim_blocks=True, finalize=lambda value: visible_lines(value) if type(value) is str else value
    )


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def is_page(target: str | Path) -> bool:
    """Return whether a file name is that of a page for a browser."""
    return Path(target).suffix.lower() in (".html", ".htm")


def require_drawing(target: str | Path) -> None:
    """Check before long work that a figure or a page can be drawn.

    Raises:
        InputError: the ending of the name is neither of a page nor of a figure.
        DeviceError: a library is missing.
    """
    if not is_page(target):
        require_figure(target)
        return
    with styled():  # which needs matplotlib
        _environment()
