"""The options of ``edgetune roofline`` and ``edgetune roofline ops``."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class


@options_class
class NetworkOptions:
    """Which network is placed beneath a roof or costed, as written."""

    task: Annotated[
        str | None, Option("What the network does. Default: infer.", ("--task", "-t"), "Problem", "infer|train")
    ] = None
    train: Annotated[bool, Option("Short for --task train.", ("--train",), "Problem")] = False
    batch_axis: options.BatchAxis = ()
    inputs: options.Inputs = None
    dim: options.Dim = ()


@options_class
class RooflineOptions(NetworkOptions):
    """The options of ``edgetune roofline``."""

    model: Annotated[
        str | None,
        Option("An ONNX file, zoo:NAME or llm:CONFIG. Default: peaks alone.", metavar="MODEL", argument=True),
    ] = field(default=None, kw_only=False)
    device: Annotated[
        str | None,
        Option("Name of the device; see edgetune device. Default: auto.", ("--device", "-d"), "Where", "NAME"),
    ] = None
    root: options.Root = None
    modes: Annotated[
        str | None,
        Option(
            "Power modes for the peaks; the network runs in up to 4 of them. Default: MAXN.",
            ("--modes", "-m"),
            "Where",
            "SPEC",
        ),
    ] = None
    batch_sizes: Annotated[
        str | Sequence[int] | None,
        Option(
            "Samples per minibatch. Default: the exported size, else 1.", ("--batch-sizes", "-b"), "Problem", "LIST"
        ),
    ] = None
    precision: Annotated[
        str | None,
        Option(
            "Precisions: fp32, tf32, fp16, bf16, fp8, int8. Default: the network's own types.",
            ("--precision",), "How", "LIST",
        ),
    ] = None  # fmt: skip
    phase: Annotated[
        str | None, Option("Phase of a language model. Default: both.", group="Problem", metavar="prefill|decode")
    ] = None
    context: Annotated[
        str | None,
        Option(
            "Tokens to prefill, or cached when decoding: 512,2048. Default: 2048.", ("--context",), "Problem", "LIST"
        ),
    ] = None
    peaks: Annotated[
        str | None,
        Option("Use the peaks of this roofline file instead of measuring them.", group="Files", metavar="FILE"),
    ] = None
    profile: Annotated[
        str | None,
        Option("Use the network times of this profile instead of measuring them.", group="Files", metavar="FILE"),
    ] = None
    output: Annotated[
        str | None, Option("Write the roofline to FILE; - for standard output.", ("-o", "--output"), "Files", "FILE")
    ] = None
    plot: Annotated[
        str | None, Option("Draw the result: .svg, .png, .pdf, or .html for a browser.", group="Files", metavar="FILE")
    ] = None
    tune: Annotated[
        str | float | None,
        Option("Print the plan of least energy with at most this slowdown, e.g. 5%.", ("--tune",), "Problem", "SHARE"),
    ] = None
    fused: Annotated[bool, Option("Fuse element-wise operators into their producer.", ("--fused",))] = False
    layers: Annotated[bool, Option("Also time every layer of the network.", ("--layers",))] = False
    quick: Annotated[bool, Option("Measure fewer kernel sizes.", ("--quick",))] = False
    no_measure: Annotated[bool, Option("Do not run the network.", ("--no-measure",))] = False
    seed: options.Seed = 0
    force: Annotated[bool, Option("Use --peaks of another device; replace any file.", ("--force",), "Files")] = False


@options_class
class OpsOptions(NetworkOptions):
    """The options of ``edgetune roofline ops``."""

    model: Annotated[str, Option("An ONNX file, zoo:NAME or llm:CONFIG.", metavar="MODEL", argument=True)] = field(
        kw_only=False
    )
    batch_size: Annotated[
        int | None,
        Option("Samples per minibatch. Default: the exported size, else 1.", group="Problem", metavar="N", least=1),
    ] = None
    precision: Annotated[
        str | None,
        Option("Storage type of floats: fp32, fp16, bf16, int8. Default: the network's own.", metavar="NAME"),
    ] = None
    phase: Annotated[str | None, Option("Phase of a language model.", group="Problem", metavar="prefill|decode")] = None
    context: Annotated[
        int | None,
        Option("Tokens to prefill, or cached when decoding. [default: 2048]", group="Problem", metavar="N", least=1),
    ] = None
    fused: Annotated[
        bool, Option("Fuse element-wise operators and BatchNormalization into their producer.", ("--fused",))
    ] = False
    eager: Annotated[bool, Option("Split attention, GELU, LSTM and similar operators into kernels.", ("--eager",))] = (
        False
    )
    by: Annotated[str, Option("How rows are grouped and added up.", ("--by",), "Output", "op|class|node")] = "op"
    strict: Annotated[bool, Option("Exit with code 2 if an operator has no known cost.", ("--strict",))] = False
    output: Annotated[
        str | None, Option("Write the table of all operators to FILE.", ("-o", "--output"), "Files", "FILE")
    ] = None
    force: options.Force = False
