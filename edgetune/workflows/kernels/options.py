"""The options of the commands of ``edgetune schedule kernels``."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

Include = Annotated[
    Sequence[str], Option("Folder of headers. Repeatable.", ("--include", "-I"), "Files", "DIR", repeatable=True)
]
Multiprocessors = Annotated[
    int | None, Option("Use only N multiprocessors (a green context).", group="Where", metavar="N", least=1)
]
GpuModel = Annotated[str, Option("Model of the GPU, e.g. orin-nano.", ("--gpu", "-g"), "Where", "NAME")]
KernelFile = Annotated[
    str, Option("A CUDA C or PTX file, or - for standard input.", metavar="FILE", argument=True)
]  # fmt: skip


def header_folders(file: str, include: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of headers: that of the file, then those asked for."""
    return (*(() if file == "-" else (str(Path(file).parent),)), *(str(Path(folder)) for folder in include))


@options_class
class TransformOptions:
    """The options of ``edgetune schedule kernels transform``."""

    file: KernelFile = field(kw_only=False)
    explain: Annotated[bool, Option("Explain each transformation and why it is safe.", group="Problem")] = False
    check: Annotated[
        bool, Option("Run original and forms on the CPU and compare results bit by bit.", group="Problem")
    ] = False
    instantiate: Annotated[
        Sequence[str],
        Option(
            "An instance of a template kernel, besides those that the file launches in comments, e.g. "
            "'scale<float, 16>'. Repeatable.",
            group="Problem", metavar="KERNEL<...>", repeatable=True,
        ),
    ] = ()  # fmt: skip
    persistent: Annotated[
        bool,
        Option(
            "Make persistent forms too: blocks take logical blocks from a counter, and leave above a quota.",
            group="Problem",
        ),
    ] = False
    arch: Annotated[
        str | None,
        Option(
            "Architecture to compile CUDA C for: that of the oldest GPU that shall run it, e.g. sm_90. Default: sm_87, "
            "of Orin.",
            group="Where", metavar="SM",
        ),
    ] = None  # fmt: skip
    launch: Annotated[
        Sequence[str],
        Option(
            "A launch to check, besides those in comments of the file, e.g. 'vadd grid=6 block=256 "
            "a=float32[1500] n=int32:1500'. Repeatable.",
            group="Problem", metavar="WORDS", repeatable=True,
        ),
    ] = ()  # fmt: skip
    device: Annotated[
        str | None, Option("Check on this GPU too: nvidia:N, or jetson.", ("--device", "-d"), "Where", "NAME")
    ] = None
    include: Include = ()
    output: Annotated[
        str | None,
        Option(
            "The PTX with its forms. Default: standard output, if no report goes there.",
            ("-o", "--output"),
            "Files",
            "FILE",
        ),
    ] = None
    force: options.Force = False

    @property
    def checks(self) -> bool:
        """Whether kernels are tried."""
        return self.check or bool(self.launch)


@options_class
class ShrinkOptions:
    """The options of ``edgetune schedule kernels shrink``."""

    file: KernelFile = field(kw_only=False)
    grid: Annotated[str, Option("Blocks of a launch, e.g. 196 or 14,14.", group="Problem", metavar="X,Y,Z")]
    block: Annotated[str, Option("Threads of a block, e.g. 256 or 16,16.", group="Problem", metavar="X,Y,Z")]
    kernel: Annotated[
        str | None, Option("Name of the kernel. Default: the only one.", ("--kernel", "-k"), "Problem", "NAME")
    ] = None
    shared: Annotated[str, Option("Dynamic shared memory of a block, e.g. 4KiB.", group="Problem", metavar="SIZE")] = (
        "0"
    )
    gpu: GpuModel = "orin-agx"
    include: Include = ()


@options_class
class ShareOptions:
    """The options that ``simulate`` and ``run`` share; what is ``None`` is as the file of tasks says."""

    tasks: Annotated[
        str, Option("A YAML file of tasks and networks.", metavar="TASKS", argument=True)
    ] = field(kw_only=False)  # fmt: skip
    policy: Annotated[
        str | None,
        Option(
            "sequential, multistream, barrier, elastic, persistent, or several. Default: that of the file.",
            ("--policy", "-p"), metavar="LIST",
        ),
    ] = None  # fmt: skip
    duration: Annotated[
        str | float | None,
        Option("How long requests arrive, e.g. 2s. Default: that of the file.", group="Problem", metavar="TIME"),
    ] = None
    admit_within: Annotated[
        str | float | None,
        Option(
            "Leave out best-effort tasks with a kernel that may add more than this share to the latency of the "
            "critical task alone, in the worst case.",
            metavar="SHARE",
        ),
    ] = None  # fmt: skip
    output: Annotated[
        str | None, Option("File of the timeline. Default: kernels.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    view: Annotated[
        str | None,
        Option("Figure to draw: gantt, gantt:POLICY or gantt:POLICY@10ms-30ms.", group="Files", metavar="NAME"),
    ] = None
    force: options.Force = False

    plot: Annotated[
        str | None,
        Option("Draw it: .svg, .png, .pdf, .html; a real run needs --blocks.", group="Files", metavar="FILE"),
    ] = None
    seed: Annotated[int | None, Option("Seed of what is random. Default: that of the file.", metavar="N", least=0)] = (
        None
    )


@options_class
class SimulateOptions(ShareOptions):
    """The options of ``edgetune schedule kernels simulate``."""

    gpu: Annotated[
        str | None,
        Option("Model of the GPU, e.g. orin-nano. Default: that of the file.", group="Where", metavar="NAME"),
    ] = None


@options_class
class RunOptions(ShareOptions):
    """The options of ``edgetune schedule kernels run``."""

    device: Annotated[str, Option("nvidia:N, or jetson.", ("--device", "-d"), "Where", "NAME")] = "nvidia:0"
    sms: Multiprocessors = None
    blocks: Annotated[bool, Option("Record where and when each block runs, which costs time.")] = False
    include: Include = ()


@options_class
class BenchOptions:
    """The options of ``edgetune schedule kernels bench``."""

    workloads: Annotated[
        Sequence[str],
        Option(
            "Workload A, B, C, D, A224 or LGSVL. Default: A to D.", metavar="WORKLOAD", argument=True, repeatable=True
        ),
    ] = field(default=(), kw_only=False)
    policy: Annotated[str, Option("Policies, in the order of the first turn.", ("--policy", "-p"), metavar="LIST")] = (
        "sequential,multistream,barrier,elastic"
    )
    duration: Annotated[
        str | float, Option("How long requests arrive in each run.", group="Problem", metavar="TIME")
    ] = "1s"
    gpu: GpuModel = "orin-agx"
    normal_sms: Annotated[
        int | None,
        Option(
            "Multiprocessors that the normal network may use, by all policies but sequential. Default: all.",
            metavar="N", least=1,
        ),
    ] = None  # fmt: skip
    device: Annotated[
        str | None, Option("Run on a real GPU instead: nvidia:0 or jetson.", ("--device", "-d"), "Where", "NAME")
    ] = None
    sms: Multiprocessors = None
    turns: Annotated[int, Option("How often each policy runs.", metavar="N", least=1, most=1000)] = 3
    seed: options.Seed = 0
    output: Annotated[
        str | None, Option("File of the figures (.json). Default: bench.json.", ("-o", "--output"), "Files", "FILE")
    ] = None
    force: options.Force = False
