"""Five small networks as people write them in PyTorch, and as PyTorch's exporter writes them down."""

import warnings
from pathlib import Path

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(50, 24), nn.LSTM(24, 32, num_layers=2, batch_first=True)
        self.gru, self.head = nn.GRU(32, 16, batch_first=True, bidirectional=True), nn.Linear(32, 50)

    def forward(self, tokens):
        x, (state, _) = self.lstm(self.table(tokens))
        x, _ = self.gru(x)
        return self.head(x), state


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.wide, self.narrow = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, 4, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        scores = (query @ key.transpose(-1, -2) / 8**0.5).masked_fill(mask[:, None, None, :] == 0, -1e4)
        x = x + self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, 32))
        return x + self.narrow(nn.functional.gelu(self.wide(x)))


class Depthwise(nn.Module):
    """Depthwise separable convolutions with a squeeze-and-excitation gate."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.depthwise = nn.Conv2d(8, 48, 1), nn.Conv2d(48, 48, 5, padding=2, groups=48)
        self.norm, self.squeeze, self.excite = nn.BatchNorm2d(48), nn.Conv2d(48, 12, 1), nn.Conv2d(12, 48, 1)
        self.project = nn.Conv2d(48, 8, 1)

    def forward(self, image):
        x = nn.functional.hardswish(self.norm(self.depthwise(nn.functional.relu6(self.expand(image)))))
        gate = nn.functional.hardsigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return image + self.project(x * gate)


class Upsampling(nn.Module):
    """Down and up again with a bridge: as in U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.up, self.join = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Conv2d(32, 16, 3, padding=1)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, image):
        shallow = torch.relu(self.down(image))
        x = self.up(torch.relu(self.deep(shallow)))
        x = torch.relu(self.join(torch.cat([x, shallow], 1)))
        return self.last(nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(100, 32), nn.Parameter(torch.randn(12, 32))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(3)
        )

    def forward(self, tokens):
        x = self.table(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = x + block(x)
        return x.mean(1)


def words(*shape: int, below: int = 50) -> torch.Tensor:
    return torch.randint(0, below, shape)


NETWORKS = {
    "recurrent": (Recurrent, {"tokens": words(1, 7)}, 2),
    "attention": (Attention, {"x": torch.rand(2, 6, 32), "mask": torch.ones(2, 6)}, 1),
    "depthwise": (Depthwise, {"image": torch.rand(1, 8, 9, 9)}, 1),
    "upsampling": (Upsampling, {"image": torch.rand(1, 3, 16, 16)}, 1),
    "encoder": (Encoder, {"tokens": words(2, 9)}, 1),
}
"""Class, example inputs by name, and number of outputs."""


def export(name: str, path: Path) -> Path:
    """Write one of the networks as an ONNX file, weights drawn from a fixed seed."""
    made, inputs, outputs = NETWORKS[name]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own: of old interfaces, and of what it traces
        torch.onnx.export(
            made().eval(), tuple(inputs.values()), str(path), dynamo=False, opset_version=17,
            input_names=list(inputs), output_names=[f"out{index}" for index in range(outputs)],
        )  # fmt: skip
    return path
