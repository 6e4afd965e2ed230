"""AlexNet (Krizhevsky 2014, arXiv:1404.5997) and SqueezeNet 1.0 (arXiv:1602.07360).

Laid out as torchvision's ``alexnet.py`` and ``squeezenet.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import kaiming_uniform, normal

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

FIRES = ((3, 16, 64), (4, 16, 64), (5, 32, 128), (7, 32, 128), (8, 48, 192), (9, 48, 192), (10, 64, 256), (12, 64, 256))
"""Index in ``features``, squeeze channels, expand channels of each branch; indices 2, 6 and 11 are poolings."""


def alexnet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Five convolutions and three large linear layers.

    The adaptive pooling to 6 x 6, the identity at 224 pixels, is left out.
    """
    x = graph.relu("features.1", graph.conv("features.0", image, 64, kernel=11, stride=4, padding=2, bias=True))
    x = graph.max_pool("features.2", x, kernel=3, stride=2)
    x = graph.relu("features.4", graph.conv("features.3", x, 192, kernel=5, bias=True))
    x = graph.max_pool("features.5", x, kernel=3, stride=2)
    for index, channels in ((6, 384), (8, 256), (10, 256)):
        x = graph.relu(f"features.{index + 1}", graph.conv(f"features.{index}", x, channels, kernel=3, bias=True))
    x = graph.flatten("flatten", graph.max_pool("features.12", x, kernel=3, stride=2))
    for index in (0, 3):
        x = graph.linear(f"classifier.{index + 1}", graph.dropout(f"classifier.{index}", x, 0.5), 4096)
        x = graph.relu(f"classifier.{index + 2}", x)
    return {"logits": graph.linear("classifier.6", x, 1000)}


def squeezenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Eight fire modules: a 1x1 squeeze, then 1x1 and 3x3 expansions side by side."""
    x = graph.relu("features.1", _conv(graph, "features.0", image, 96, kernel=7, stride=2, padding=0))
    x = graph.max_pool("features.2", x, kernel=3, stride=2, ceil=True)
    for index, squeeze, expand in FIRES:
        x = _fire(graph, f"features.{index}", x, squeeze, expand)
        if index in (5, 10):
            x = graph.max_pool(f"features.{index + 1}", x, kernel=3, stride=2, ceil=True)
    x = graph.dropout("classifier.0", x, 0.5)
    x = graph.relu("classifier.2", graph.conv("classifier.1", x, 1000, kernel=1, bias=True, initialise=_final))
    return {"logits": graph.flatten("flatten", graph.global_average_pool("classifier.3", x))}


def _fire(graph: GraphBuilder, name: str, x: Value, squeeze: int, expand: int) -> Value:
    x = graph.relu(f"{name}.squeeze_activation", _conv(graph, f"{name}.squeeze", x, squeeze, kernel=1))
    branches = [
        graph.relu(
            f"{name}.expand{side}x{side}_activation",
            _conv(graph, f"{name}.expand{side}x{side}", x, expand, kernel=side),
        )
        for side in (1, 3)
    ]
    return graph.concat(f"{name}.concat", branches, axis=1)


def _conv(
    graph: GraphBuilder, name: str, x: Value, channels: int, *, kernel: int, stride: int = 1, padding: int | None = None
) -> Value:
    return graph.conv(
        name, x, channels, kernel=kernel, stride=stride, padding=padding, bias=True, initialise=kaiming_uniform
    )


def _final(_: tuple[int, ...]) -> str:
    return normal(0.01)
