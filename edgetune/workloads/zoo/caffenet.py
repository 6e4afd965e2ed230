"""Seven networks of EdgeCaffe's descent from AlexNet: one recipe, eight numbers apart.

    image -> conv+relu, pool, norm -> conv+relu, pool, norm -> conv+relu ... pool -> fc, fc (dropout) -> fc

CaffeNet is AlexNet (Krizhevsky et al., NIPS 2012) as BVLC's ``bvlc_reference_caffenet`` lays it out: pooling before
normalisation, the second, fourth and fifth convolution in two groups. Four networks are a CaffeNet with another last
layer: faces (Farfade et al., arXiv:1502.02766), salient objects counted (Zhang et al., CVPR 2015), memorability, a
regression (Khosla et al., ICCV 2015), and scenes (Zhou et al., NIPS 2014, Places205). Age and gender are a smaller
relative (Levi and Hassner, CVPRW 2015). Emotions are VGG_S (Chatfield et al., arXiv:1405.3531; Levi and Hassner, ICMI
2015), which has no groups and one normalisation, before pooling.

The bytes of every layer agree with the files of weights that the EdgeCaffe study stored (Cox, MASA, 2020); a test
holds that. Two liberties: the last softmax is left to the loss, as everywhere in the zoo; and the face network's linear
layers, which its authors run as convolutions over larger images, are linear layers, which they equal at 227 pixels.
Weights are drawn as He et al. do, so that what comes out depends on what goes in through all eight layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import kaiming_uniform

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value


@dataclass(frozen=True, slots=True)
class _Conv:
    """A convolution with its ReLU; ``pool`` is kernel and stride of the pooling after it, ``norm`` where LRN stands."""

    channels: int
    kernel: int
    padding: int
    stride: int = 1
    groups: int = 1
    pool: tuple[int, int] | None = None
    norm: str = ""


_CAFFENET = (
    _Conv(96, 11, 0, stride=4, pool=(3, 2), norm="after"),
    _Conv(256, 5, 2, groups=2, pool=(3, 2), norm="after"),
    _Conv(384, 3, 1),
    _Conv(384, 3, 1, groups=2),
    _Conv(256, 3, 1, groups=2, pool=(3, 2)),
)
_FACES = (
    _Conv(96, 7, 0, stride=4, pool=(3, 2), norm="after"),
    _Conv(256, 5, 2, pool=(3, 2), norm="after"),
    _Conv(384, 3, 1, pool=(3, 2)),
)
_VGG_S = (
    _Conv(96, 7, 0, stride=2, pool=(3, 3), norm="before"),
    _Conv(256, 5, 0, pool=(2, 2)),
    _Conv(512, 3, 1),
    _Conv(512, 3, 1),
    _Conv(512, 3, 1, pool=(3, 3)),
)


def agenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Eight ranges of age."""
    return {"logits": _network(graph, image, _FACES, hidden=512, outputs=8)}


def gendernet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Two genders."""
    return {"logits": _network(graph, image, _FACES, hidden=512, outputs=2)}


def facenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """A face, or none."""
    return {"logits": _network(graph, image, _CAFFENET, hidden=4096, outputs=2)}


def sos(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Salient objects: 0, 1, 2, 3, or more."""
    return {"logits": _network(graph, image, _CAFFENET, hidden=4096, outputs=5)}


def memnet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """How memorable the image is: one number."""
    return {"memorability": _network(graph, image, _CAFFENET, hidden=4096, outputs=1)}


def scenenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """205 scenes."""
    return {"logits": _network(graph, image, _CAFFENET, hidden=4096, outputs=205)}


def emotionnet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Seven emotions."""
    return {"logits": _network(graph, image, _VGG_S, hidden=4096, outputs=7, spread=5e-4, offset=2.0)}


def _network(
    graph: GraphBuilder,
    image: Value,
    convolutions: tuple[_Conv, ...],
    *,
    hidden: int,
    outputs: int,
    spread: float = 1e-4,
    offset: float = 1.0,
) -> Value:
    """Convolutions, then three linear layers; ``spread`` and ``offset`` are alpha and k of the normalisation."""
    x = image
    for index, conv in enumerate(convolutions, start=1):
        x = graph.conv(
            f"conv{index}", x, conv.channels, kernel=conv.kernel, stride=conv.stride, padding=conv.padding,
            groups=conv.groups, bias=True, initialise=kaiming_uniform,
        )  # fmt: skip
        x = graph.relu(f"relu{index}", x)
        if conv.norm == "before":
            x = graph.local_response_norm(f"norm{index}", x, spread=spread, offset=offset)
        if conv.pool is not None:
            kernel, stride = conv.pool
            x = graph.max_pool(f"pool{index}", x, kernel=kernel, stride=stride, ceil=True)
        if conv.norm == "after":
            x = graph.local_response_norm(f"norm{index}", x, spread=spread, offset=offset)
    x = graph.flatten("flatten", x)
    for index in (6, 7):
        x = graph.relu(f"relu{index}", graph.linear(f"fc{index}", x, hidden, initialise=kaiming_uniform))
        x = graph.dropout(f"drop{index}", x, 0.5)
    return graph.linear("fc8", x, outputs)
