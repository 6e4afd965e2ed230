"""Networks written in PyTorch and exported with open axes, as most files are made."""

import importlib.util
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import onnx
import torch
from torch import nn

from foreign.network import ForeignNetwork

Axes = Mapping[str, Mapping[int, str]]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, image):
        return self.head(torch.flatten(self.pool(self.stem(image)), 1))


class Shuffle(nn.Module):
    """Channel shuffle as torchvision's ShuffleNet does it, with sizes taken from the tensor."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.head = nn.Linear(16, 10)

    def forward(self, image):
        x = torch.relu(self.first(image))
        batch, channels, height, width = x.shape
        x = x.view(batch, 4, channels // 4, height, width).transpose(1, 2).contiguous()
        x = self.second(x.view(batch, channels, height, width))
        left, right = x.chunk(2, dim=1)
        return self.head(torch.cat([right, left], 1).mean([2, 3]))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, ids):
        return self.layer(self.table(ids))


class Attention(nn.Module):
    """Self-attention with the lengths taken from the tensor, so that they stay open."""

    def __init__(self):
        super().__init__()
        self.table, self.mix, self.out = nn.Embedding(200, 32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, ids):
        x = self.table(ids)
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, 8).transpose(1, 2) for t in self.mix(x).chunk(3, dim=2))
        p = torch.softmax(q @ k.transpose(2, 3) / 8**0.5, 3)
        return x + self.out((p @ v).transpose(1, 2).reshape(batch, length, width))


class Recurrent(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.gru = nn.GRU(24, 32, batch_first=batch_first)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        y, state = self.gru(x)
        return self.head(y), state


class Detector(nn.Module):
    """A head as SSD's: boxes and scores of two maps, and the best of them."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 16, 3, stride=4, padding=1), nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.boxes = nn.ModuleList(nn.Conv2d(16, 2 * 4, 3, padding=1) for _ in range(2))
        self.classes = nn.ModuleList(nn.Conv2d(16, 2 * 6, 3, padding=1) for _ in range(2))

    def forward(self, image):
        first = torch.relu(self.one(image))
        maps = (first, torch.relu(self.two(first)))
        boxes = torch.cat([self._rows(head(x), 4) for head, x in zip(self.boxes, maps, strict=True)], 1)
        scores = torch.cat([self._rows(head(x), 6) for head, x in zip(self.classes, maps, strict=True)], 1).softmax(2)
        best, index = scores.amax(2).topk(10, dim=1)
        return torch.gather(boxes, 1, index.unsqueeze(2).expand(-1, -1, 4)), best

    @staticmethod
    def _rows(x, width):
        batch, _, height, across = x.shape
        return x.view(batch, -1, width, height, across).permute(0, 3, 4, 1, 2).reshape(batch, -1, width)


class Selecting(nn.Module):
    """Keeps the boxes whose score is high enough, however many there are."""

    def __init__(self):
        super().__init__()
        self.scores, self.boxes = nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, x):
        scores = self.scores(x)[0, :, 0]
        places = torch.nonzero(scores > 0.0)[:, 0]
        return self.boxes(x)[0].index_select(0, places), scores.index_select(0, places)


def export(made, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], axes: Axes, *, dynamo=False):
    """Return what PyTorch's exporter writes: the one by tracing, or by ``torch.export``."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the exporter's own
        path = Path(folder) / "network.onnx"
        how = {"dynamic_axes": axes, "opset_version": 17}
        if dynamo:
            shapes = {name: {axis: torch.export.Dim(s) for axis, s in axes.get(name, {}).items()} for name in inputs}
            how = {"dynamic_shapes": shapes, "external_data": False, "verbose": False}
        torch.onnx.export(
            made().eval(), tuple(inputs.values()), str(path), dynamo=dynamo, input_names=list(inputs),
            output_names=list(outputs), **how,
        )  # fmt: skip
        return onnx.load(path)


IMAGE = {"image": torch.rand(2, 3, 32, 32)}
BATCH = {"image": {0: "batch"}}
OPEN = {"image": {0: "batch", 2: "height", 3: "width"}}
WORDS = {"ids": torch.arange(2 * 9).reshape(2, 9)}
WORD_AXES = {"ids": {0: "batch", 1: "sequence"}}
SERIES = {"x": torch.rand(3, 5, 24)}
DETECTOR_MACS = 8 * 8 * 16 * 27 + 4 * 4 * 16 * 144 + (8 * 8 + 4 * 4) * 144 * (8 + 12)
ROWS = {
    "small": (partial(export, Small, IMAGE, ["y"], BATCH), "a small CNN, batch open",
              {"image": (1, 3, 32, 32)}, {"image": 0}, 256 * 16 * 27 + 160, {}),
    "shuffle": (partial(export, Shuffle, IMAGE, ["y"], BATCH), "channel shuffle, batch open",
                {"image": (1, 3, 32, 32)}, {"image": 0}, 256 * 16 * (27 + 36) + 160, {}),
    "shuffle_open": (partial(export, Shuffle, IMAGE, ["y"], OPEN), "channel shuffle, height and width open",
                     {"image": (1, 3, 48, 32)}, {"image": 0}, 384 * 16 * (27 + 36) + 160,
                     {"height": 48, "width": 32}),
    "attention": (partial(export, Attention, WORDS, ["y"], WORD_AXES), "self-attention, batch and length open",
                  {"ids": (1, 12)}, {"ids": 0}, 12 * 4 * 32 * 32 + 2 * 12 * 12 * 32, {"sequence": 12}),
    "encoder": (partial(export, Encoder, WORDS, ["y"], WORD_AXES), "a layer called open, traced for 9 words",
                {"ids": (1, 9)}, {"ids": 0}, 9 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 9 * 9 * 32, {"sequence": 9}),
    "gru_batch_first": (partial(export, partial(Recurrent, True), SERIES, ["y", "state"],
                                {"x": {0: "batch", 1: "time"}}), "a GRU with the batch first",
                        {"x": (1, 20, 24)}, {"x": 0}, 20 * (96 * 56 + 160), {"time": 20}),
    "gru": (partial(export, partial(Recurrent, False), SERIES, ["y", "state"], {"x": {0: "time", 1: "batch"}}),
            "a GRU with the time first", {"x": (20, 1, 24)}, {"x": 1}, 20 * (96 * 56 + 160), {"time": 20}),
    "gru_fixed": (partial(export, partial(Recurrent, False), SERIES, ["y", "state"], {}),
                  "a GRU with the time first, exported for 5 samples", {"x": (3, 5, 24)}, {"x": 1},
                  15 * (96 * 56 + 160), {}),
    "detector": (partial(export, Detector, IMAGE, ["boxes", "scores"], BATCH), "boxes of two maps, and the best",
                 {"image": (1, 3, 32, 32)}, {"image": 0}, DETECTOR_MACS, {}),
    "detector_open": (partial(export, Detector, IMAGE, ["boxes", "scores"], OPEN), "the same, height and width open",
                      {"image": (1, 3, 32, 32)}, {"image": 0}, DETECTOR_MACS, {"height": 32, "width": 32}),
    "detector_fixed": (partial(export, Detector, {"image": IMAGE["image"][:1]}, ["boxes", "scores"], {}),
                       "the same, exported for one image", {"image": (1, 3, 32, 32)}, {"image": 0}, DETECTOR_MACS, {}),
    "selecting": (partial(export, Selecting, {"x": torch.rand(1, 30, 16)}, ["boxes", "scores"], {}),
                  "keeps what scores high", {"x": (1, 30, 16)}, {}, None, {}),
}  # fmt: skip


def _networks():
    yield from (
        ForeignNetwork(f"torch_{name}", f"PyTorch's exporter: {unusual}", build, shapes, axes, macs, dimensions)
        for name, (build, unusual, shapes, axes, macs, dimensions) in ROWS.items()
    )
    if importlib.util.find_spec("onnxscript") is None:  # torch.export needs it, and the extra for tests leaves it out
        return
    yield from (
        ForeignNetwork(
            f"dynamo_{name}", f"torch.export: {unusual}", partial(build, dynamo=True), shapes, axes, macs, dimensions
        )
        for name, (build, unusual, shapes, axes, macs, dimensions) in ROWS.items()
        if name != "gru"  # whose time torch.export fixes at that of the example
    )


NETWORKS = tuple(_networks())
