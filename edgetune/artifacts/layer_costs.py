"""Layer costs: time and memory to load and execute each layer of prepared networks, each layer measured alone.

    layer    kind   weights     load       execute    peak
    conv1    conv    136 KiB    0.1 ms      3.9 ms   3.2 MiB     from these a network can be scheduled on a clock
    fc6      fc      144 MiB     31 ms      9.8 ms   0.1 MiB

Figures are as measured, without a safety margin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt
from edgetune.artifacts.header import Header
from edgetune.errors import InputError
from edgetune.units import MOST_S

KIND = "layer_costs"
VERSION = 1

LayerKind = Literal["conv", "fc", "other"]
CostForm = Literal["layers", "default", "external"]
CostStatus = Literal["ok", "failed"]


@dataclass(frozen=True, slots=True)
class LayerCostRow:
    """One layer of one network, or a whole network. All times are medians where samples are given, with 95 % intervals.

    A table written by hand needs the first seven columns only: its layers are then a chain.

    Args:
        network: Name of the network.
        layer: Name of the layer, unique in the network.
        kind: Operator type of its weights.
        weight_bytes: Size of its weights on storage.
        output_bytes: Size of its outputs.
        load_s: Time to load its weights into memory with their file in the page cache, s.
        execute_s: Time to execute, weights and inputs in memory, s.
        index: Its index in the network, from 0; by default the order of rows.
        after: Indices of the layers whose outputs it reads; by default the layer before it.
        scratch_bytes: Size of its internal tensors, counted from its graph.
        input_bytes: Size of the network's inputs, the same in each of its rows.
        peak_bytes: Maximum memory added by executing it, outputs included, in whole pages; ``None`` if the system does
            not count it. The kernel's count may miss a few hundred KiB.
        cold_load_s: Time to load from storage, with nothing in the page cache, s; ``None`` if not measured.
        load_ci95_low_s, load_ci95_high_s, cold_load_ci95_low_s, cold_load_ci95_high_s, execute_ci95_low_s,
            execute_ci95_high_s: 95 % intervals of the medians; ``None`` with too few samples for one.
        load_samples_s, cold_load_samples_s, execute_samples_s: Every sample in the order taken, warm-up included, s.
        load_warmups, cold_load_warmups, execute_warmups: Number of leading samples that the figures exclude.
        status: ``failed`` for a layer without figures.
        reason: Why it failed, or why a figure is missing.
        form: ``layers`` for a layer; for a whole network ``default`` or ``external``, see ``schedule.whole_session``.
            A whole network is executed once after each load, and its ``peak_bytes`` is the maximum memory added by
            loading, weights included.
        resident_bytes: Memory of a whole network while it is loaded.
        sessions_bytes: Memory of the sessions of all layers of the network, the same in each of its rows.
        first_execute_s: Time of the first execution, s.
        cold_execute_s: Time to execute a whole network that was loaded from storage, s.
        unload_s: Time to free the weights, s, also from the page cache if loads from storage were measured.
        cold_execute_ci95_low_s, cold_execute_ci95_high_s, unload_ci95_low_s, unload_ci95_high_s,
            cold_execute_samples_s, unload_samples_s, cold_execute_warmups, unload_warmups: As above.
        shared_files, shared_bytes: Files among its weights that other layers read too, and their sizes.
    """

    network: str
    layer: str
    kind: LayerKind
    weight_bytes: NonNegativeInt
    output_bytes: NonNegativeInt
    load_s: NonNegativeFloat | None
    execute_s: NonNegativeFloat | None
    index: int | None = None
    after: tuple[int, ...] | None = None
    scratch_bytes: NonNegativeInt = 0
    input_bytes: NonNegativeInt = 0
    peak_bytes: NonNegativeInt | None = None
    cold_load_s: NonNegativeFloat | None = None
    load_ci95_low_s: float | None = None
    load_ci95_high_s: float | None = None
    cold_load_ci95_low_s: float | None = None
    cold_load_ci95_high_s: float | None = None
    execute_ci95_low_s: float | None = None
    execute_ci95_high_s: float | None = None
    load_samples_s: tuple[float, ...] = ()
    cold_load_samples_s: tuple[float, ...] = ()
    execute_samples_s: tuple[float, ...] = ()
    load_warmups: int = 0
    cold_load_warmups: int = 0
    execute_warmups: int = 0
    status: CostStatus = "ok"
    reason: str | None = None
    form: CostForm = "layers"
    resident_bytes: NonNegativeInt | None = None
    sessions_bytes: NonNegativeInt | None = None
    first_execute_s: NonNegativeFloat | None = None
    cold_execute_s: NonNegativeFloat | None = None
    unload_s: NonNegativeFloat | None = None
    cold_execute_ci95_low_s: float | None = None
    cold_execute_ci95_high_s: float | None = None
    unload_ci95_low_s: float | None = None
    unload_ci95_high_s: float | None = None
    cold_execute_samples_s: tuple[float, ...] = ()
    unload_samples_s: tuple[float, ...] = ()
    cold_execute_warmups: int = 0
    unload_warmups: int = 0
    shared_files: tuple[str, ...] = ()
    shared_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerCosts(Table):
    """The table: rows of each network in the order of its layers, then of the whole network if measured.

    ``header.inputs["networks"]`` says of each network its name, reference, sha256 and batch_size;
    ``header.conditions["machine"]`` the memory of the process that runs networks and the machine's swap
    (``base_bytes``, of these ``base_anonymous_bytes`` no pages of files, ``swap_bytes``), where they are known.
    """

    header: Header
    rows: tuple[LayerCostRow, ...]

    ROW = LayerCostRow

    @classmethod
    def from_foreign(cls, table: Any, *, name: str) -> Any:
        """See ``with_lists``."""
        return with_lists(table, name=name)

    @classmethod
    def check_rows(cls, rows: tuple[LayerCostRow, ...], *, name: str) -> tuple[LayerCostRow, ...]:
        """Return the rows with ``index`` and ``after`` filled in, each network's in the order of its layers."""
        if not rows:
            raise InputError(f"{name} has no rows", "give it a row per layer")
        return tuple(_checked(rows, name=name))

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the networks in order of appearance."""
        return tuple(dict.fromkeys(row.network for row in self.rows))


def _checked(rows: Sequence[LayerCostRow], *, name: str) -> Iterator[LayerCostRow]:
    seen: dict[str, dict[str, None]] = {}
    for number, row in enumerate(rows, start=1):
        where, of = f"{name}, row {number}", row.network if row.form == "layers" else f"{row.network} {row.form}"
        before = seen.setdefault(of, {})
        _check_figures(row, where)
        if row.form != "layers" and before:
            raise InputError(
                f"{where}: there is already a row for {row.network} as a whole",
                "keep one row for each form of the network",
            )
        if row.layer in before:
            raise InputError(
                f"{where}: network {row.network} has a layer {row.layer!r} already", "give each layer a unique name"
            )
        index = len(before)
        if row.index is not None and row.index != index:
            raise InputError(
                f"{where}: index of {row.network}/{row.layer} is {row.index}, and {index} layers come before it",
                "sort the rows of a network by index, from 0, none left out",
            )
        before[row.layer] = None
        after = ((index - 1,) if index else ()) if row.after is None else row.after
        if list(after) != sorted(set(after)) or any(not 0 <= each < index for each in after):
            raise InputError(
                f"{where}: {row.network}/{row.layer} is after {list(after)}",
                f"name layers before it by index, ascending, e.g. {index - 1}" if index else "the first reads no other",
            )
        yield replace(row, index=index, after=tuple(after))


_TIMES = ("load_s", "execute_s", "cold_load_s", "first_execute_s", "cold_execute_s", "unload_s")


def _check_figures(row: LayerCostRow, where: str) -> None:
    for column in _TIMES:
        value = getattr(row, column)
        if value is not None and value > MOST_S:
            raise InputError(f"{where}: {column} is {value:g}", f"{column} is in seconds: no layer takes three years")
    if len(row.shared_files) != len(row.shared_bytes) or not 0 <= sum(row.shared_bytes) <= row.weight_bytes:
        message = f"{where}: {len(row.shared_files)} shared files of {list(row.shared_bytes)} bytes"
        raise InputError(message, f"name the size of each file, together at most weight_bytes, {row.weight_bytes}")
    if row.status == "ok":
        for column in ("load_s", "execute_s"):
            if getattr(row, column) is None:
                raise InputError(f"{where}: {column} is empty", "only a layer of status failed lacks times")


def with_lists(table: Any, *, name: str) -> Any:
    """Return a ``pyarrow.Table`` with a text column ``after``, e.g. ``0 2`` or ``[0,2]``, converted to lists.

    Raises:
        InputError: a cell has another form; the row is named.
    """
    import pyarrow as pa

    if "after" not in table.column_names:
        return table
    column = table.column("after").combine_chunks()
    if pa.types.is_list(column.type):
        return table
    cells = [_words(str(cell)) if cell else None for cell in column.to_pylist()]
    for number, cell in enumerate(cells, start=1):
        if cell is not None and not all(word.isdecimal() for word in cell):
            message = f"{name}, row {number}: after is {' '.join(cell)!r}"
            raise InputError(message, "name layers by index, blanks between them, e.g. 0 2; leave it empty for a chain")
    lists = pa.array([None if cell is None else [int(word) for word in cell] for cell in cells], pa.list_(pa.int64()))
    return table.set_column(table.column_names.index("after"), "after", lists)


def _words(cell: str) -> list[str]:
    """Return the numbers in ``0 2`` or ``[0,2]``; none in ``[]``, for a layer without predecessors."""
    in_brackets = cell[1:-1].replace(",", " ") if cell.startswith("[") and cell.endswith("]") else cell
    return in_brackets.split()
