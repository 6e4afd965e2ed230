"""Fourier transforms and windows, the front end of speech networks."""

from __future__ import annotations

from edgetune.workloads.costs.node import Cost, GraphTensor, OperatorNode, streamed

FFT_FLOPS = 5
"""Times n log2 n for n complex values. Source: the radix-2 count that FFTW's benchmark uses for all lengths."""
WINDOW_FLOPS = 4
"""Per element of a window: angle, cosine, product, sum."""


def dft(node: OperatorNode) -> Cost:
    """Discrete Fourier transform along an axis: 5 n log2 n per transform, half of that from or to real values."""
    x, y = node.x, node.y
    real = x.dims[-1] == 1 or node.attributes.get("onesided", 0)
    longer = max(x.elements // x.dims[-1], y.elements // y.dims[-1])
    axis = int(node.attributes.get("axis", -2))
    length = max(x.dims[axis], 1)
    return streamed(node, "reduction", reads=[x], flops_other=_fft(longer, length, real=bool(real)))


def stft(node: OperatorNode) -> Cost:
    """Short-time Fourier transform: a window and a transform per frame; frames overlap, the signal is read once."""
    signal, spectrum, window = node.x, node.y, node.optional(2)
    frames = spectrum.dims[0] * spectrum.dims[1]
    onesided = bool(node.attributes.get("onesided", 1))
    length = _frame_length(spectrum, window, onesided)
    windowed = frames * length if window is not None else 0
    flops = _fft(frames * length, length, real=onesided) + windowed
    return streamed(node, "reduction", reads=[signal, window], flops_other=flops)


def window(node: OperatorNode) -> Cost:
    """A window of a given length (``HannWindow`` and its like): ``WINDOW_FLOPS`` per element, nothing read."""
    return streamed(node, "elementwise", reads=(), flops_other=WINDOW_FLOPS * node.y.elements)


def _frame_length(spectrum: GraphTensor, window: GraphTensor | None, onesided: bool) -> int:
    if window is not None:
        return window.elements
    return 2 * (spectrum.dims[2] - 1) if onesided else spectrum.dims[2]


def _fft(values: int, length: int, *, real: bool) -> int:
    flops = FFT_FLOPS * values * max(length - 1, 0).bit_length()
    return flops // 2 if real else flops
