"""Small PyTorch networks that score the next token at every place of a sequence: an LSTM and a causal transformer."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class NextTokenLstm(nn.Module):  # type: ignore[misc]
    """An embedding, an LSTM over the sequence and a dense layer: scores ``[samples, length, classes]``."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.lstm = nn.LSTM(32, 128, batch_first=True)
        self.decoder = nn.Linear(128, classes)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Return the scores after each token."""
        return self.decoder(self.lstm(self.embedding(tokens))[0])


class NextTokenTransformer(nn.Module):  # type: ignore[misc]
    """A causal transformer, normalised before each part: scores ``[samples, length, classes]``.

    Heads are ``width // heads`` wide, so that any number of heads fits: six heads of 42 in a width of 256.
    """

    def __init__(
        self, vocabulary: int, classes: int, length: int, *, layers: int = 2, heads: int = 4, width: int = 64
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.normal = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Return the scores after each token."""
        x = self.embedding(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.decoder(self.normal(x))


class _Block(nn.Module):  # type: ignore[misc]
    """Causal self-attention and a network of two dense layers, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._shape = (3, heads, width // heads)
        inner = heads * (width // heads)
        self.normal_1, self.normal_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * inner), nn.Linear(inner, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> Any:
        samples, length, _ = x.shape
        q, k, v = self.into(self.normal_1(x)).view(samples, length, *self._shape).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, length, -1))
        return x + self.dense(self.normal_2(x))


class LastPlace(nn.Module):  # type: ignore[misc]
    """The scores after the last token, for data with one label for a whole sequence."""

    def forward(self, scores: torch.Tensor) -> Any:
        """Return ``[samples, classes]`` of ``[samples, length, classes]``."""
        return scores[:, -1]
