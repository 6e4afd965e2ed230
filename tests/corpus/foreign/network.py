"""One network of the corpus: how it is made, and what is right for it, said independently of edgetune."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

Shape = tuple[int, ...]
Feeds = Mapping[str, np.ndarray[Any, Any]]
Verdict = Literal["measured", "refused", "either"]
"""Whether edgetune must measure the network as it is, must refuse it, or may do either where the file leaves doubt."""


@dataclass(frozen=True, slots=True)
class ForeignNetwork:
    """A network and what is right for it.

    Args:
        name: Unique in the corpus; the name of the file.
        unusual: What a tool may get wrong.
        build: Returns the model.
        shapes: Of each input where it is measured without ``--batch-sizes``: as exported, open batch axes 1, other
            open axes as ``dimensions`` says.
        batch_axes: Batch axis of each input at another batch size; ``None`` for an input that keeps its shape, and no
            entry where the file does not settle it. Empty: the network has no batch, another size must be refused.
        macs: Multiply-accumulates at ``shapes``, counted by hand; ``None`` where there is no closed form.
        dimensions: What ``--dim`` says.
        weight_bytes: Of the weights as they are stored, each read once; ``None`` where nobody counted.
        verdict: Of a run without ``--batch-sizes``.
        costed: The same of ``roofline ops``; ``verdict`` where ``None``.
        names: What a refusal must name, one of these; the inputs where empty.
        accept: Says what is wrong with the values that inputs were given, or ``""``.
        repeatable: Whether equal inputs give equal outputs.
        given: Values of inputs that a run of the corpus itself needs.
        slow: Whether a run takes more than an instant.
        save: Writes the model to a file; ``onnx.save`` where ``None``.
    """

    name: str
    unusual: str
    build: Callable[[], onnx.ModelProto]
    shapes: Mapping[str, Shape]
    batch_axes: Mapping[str, int | None] = field(default_factory=dict)
    macs: int | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    weight_bytes: int | None = None
    verdict: Verdict = "measured"
    costed: Verdict | None = None
    names: tuple[str, ...] = ()
    accept: Callable[[Feeds], str] = lambda _: ""
    repeatable: bool = True
    given: Mapping[str, object] = field(default_factory=dict)
    slow: bool = False
    save: Callable[[onnx.ModelProto, Path], None] | None = None

    @property
    def batch_size(self) -> int:
        """The size of the batch axis in ``shapes``; 1 for a network without one."""
        return next((self.shapes[name][axis] for name, axis in self.batch_axes.items() if axis is not None), 1)

    def write(self, folder: Path) -> Path:
        """Write the network into a folder and return its file."""
        path = folder / f"{self.name}.onnx"
        if self.save is not None:
            self.save(self.build(), path)
        else:
            onnx.save(self.build(), path)
        return path

    def feeds(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return inputs that ONNX Runtime accepts, at ``shapes``: floats below 1, and 1 for every integer not given."""
        generator = np.random.default_rng(1)
        declared = {value.name: value.type.tensor_type.elem_type for value in self.build().graph.input}
        made = {}
        for name, shape in self.shapes.items():
            dtype = onnx.helper.tensor_dtype_to_np_dtype(declared[name])
            values = generator.random(shape) if dtype.kind in "fV" else np.ones(shape)
            made[name] = np.asarray(self.given.get(name, values), dtype).reshape(shape)
        return made


def network(text: str, *, opset: int = 17, ir: int = 8, **weights: Shape | np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Return the model written in ONNX's text format, with weights: arrays, or shapes to be filled with small numbers.

    ``text`` is the graph, with functions behind it where there are some; an import of ``com.microsoft`` is included.
    """
    head = f'<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1, "acme" : 1]>\n'
    model = onnx.parser.parse_model(head + text)
    used = {node.domain for node in model.graph.node}
    for imported in [entry for entry in model.opset_import if entry.domain and entry.domain not in used]:
        model.opset_import.remove(imported)
    generator = np.random.default_rng(0)
    for name, weight in weights.items():
        array = weight
        if not isinstance(weight, np.ndarray):
            array = (generator.standard_normal(weight) * 0.1).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def integers(*values: int) -> np.ndarray[Any, Any]:
    """Return a rank-1 tensor of int64: a shape, axes, a trip count."""
    return np.array(values, np.int64)
