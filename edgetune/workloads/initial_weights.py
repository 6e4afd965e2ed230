"""Initial values of weights: recorded as one line of text, and drawn from a seed when the network runs.

A network of the zoo is a graph whose weights have a shape and a type but no data, so that a 1.3 GB network takes no
memory until it runs. The ``doc_string`` of each weight's tensor records its values as ``<role>: <recipe>``:

    parameter: normal 0.02      trained; drawn from a normal distribution of that standard deviation
    parameter: uniform 0.0441   trained; drawn from [-0.0441, 0.0441)
    parameter: constant 1.0     trained; starts at that value
    statistic: constant 0.0     followed by BatchNorm, neither trained nor counted as a parameter
    frozen: arange              0, 1, 2, ...; counted as a parameter, never trained

The recipes are PyTorch's defaults or those of the cited implementation, so that training converges.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from edgetune.errors import InputError
from edgetune.workloads.lazy import np, onnx

Role = Literal["parameter", "statistic", "frozen"]
ROLES: tuple[Role, ...] = ("parameter", "statistic", "frozen")
Initialise = Callable[[tuple[int, ...]], str]
"""Returns the recipe of a weight from its shape."""


ARANGE = "arange"


def constant(value: float) -> str:
    """Recipe of one value everywhere."""
    return f"constant {value!r}"


ONES = constant(1.0)


ZEROS = constant(0.0)


def normal(std: float) -> str:
    """Recipe of a normal distribution around zero."""
    return f"normal {std!r}"


def uniform(bound: float) -> str:
    """Recipe of a uniform distribution over [-bound, bound)."""
    return f"uniform {bound!r}"


def kaiming_normal(shape: tuple[int, ...]) -> str:
    """Recipe of He et al. 2015, fan-out mode with the gain of a ReLU, as in torchvision's ResNets and MobileNets.

    Fan-out is output channels x kernel area, not divided by groups, as ``torch.nn.init`` computes it.
    """
    return normal(math.sqrt(2.0 / (shape[0] * math.prod(shape[2:]))))


def kaiming_uniform(shape: tuple[int, ...]) -> str:
    """Recipe of He et al. 2015, fan-in mode with a ReLU's gain: +-sqrt(6 / fan-in), as in torchvision's SqueezeNet."""
    return uniform(math.sqrt(6.0 / math.prod(shape[1:])))


def fan_in_uniform(shape: tuple[int, ...]) -> str:
    """Recipe of PyTorch's default for weights and biases of convolutions and linear layers: +-1 / sqrt(fan-in)."""
    return uniform(1.0 / math.sqrt(math.prod(shape[1:])))


@dataclass(frozen=True, slots=True)
class Weights:
    """How the weights of a convolution are made.

    Args:
        initialise: Returns the recipe of the kernel from its shape.
        bias: Returns the recipe of the bias from the shape of the kernel; ``None`` for no bias.
        role: As in the text of the weight, see above.
    """

    initialise: Initialise = fan_in_uniform
    bias: Initialise | None = None
    role: Role = "parameter"


PYTORCH = Weights()
BIASED = Weights(bias=fan_in_uniform)
"""As PyTorch initialises a convolution without and with a bias."""


def always(recipe: str) -> Initialise:
    """Return a function that gives one recipe for any shape."""
    return lambda _: recipe


def role_of(tensor: onnx.TensorProto) -> Role | None:
    """Return the role recorded in an initializer, or ``None`` without a recipe of this module."""
    head = tensor.doc_string.partition(":")[0]
    return next((role for role in ROLES if role == head), None)


def has_data(tensor: onnx.TensorProto) -> bool:
    """Return whether an initializer has data, in the model or in an external file."""
    fields = (tensor.raw_data, tensor.float_data, tensor.int64_data, tensor.int32_data, tensor.double_data)
    return 0 in tensor.dims or bool(tensor.external_data) or any(len(field) > 0 for field in fields)


def fill(tensor: onnx.TensorProto, seed: int) -> None:
    """Fill one weight in place; its data depend on the seed and the weight's name alone, on every machine.

    Raises:
        InputError: the recipe in the ``doc_string`` is none of those above.
    """
    recipe = tensor.doc_string.partition(":")[2].split()
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    shape = tuple(tensor.dims)
    try:
        values = _values(recipe[0], [float(number) for number in recipe[1:]], shape, generator)
    except (IndexError, KeyError, ValueError) as error:
        raise InputError(
            f"weight {tensor.name!r} has no data and no known recipe ({tensor.doc_string!r})",
            "give a model that carries its weights",
        ) from error
    tensor.raw_data = values.astype("<f4", copy=False).tobytes()


def _values(kind: str, numbers: list[float], shape: tuple[int, ...], generator: np.random.Generator) -> Any:
    if kind == "normal":
        return generator.standard_normal(shape, dtype=np.float32) * np.float32(numbers[0])
    if kind == "uniform":
        return (generator.random(shape, dtype=np.float32) * 2 - 1) * np.float32(numbers[0])
    if kind == "constant":
        return np.full(shape, numbers[0], dtype=np.float32)
    if kind == "arange":
        return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    raise KeyError(kind)
