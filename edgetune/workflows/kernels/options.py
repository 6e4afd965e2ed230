"""The options of the commands of ``edgetune schedule kernels``."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

Include = Annotated[
    Sequence[str],
    Option("Look for headers here. Repeatable.", ("--include", "-I"), "Files", "DIR", repeatable=True),
]
Multiprocessors = Annotated[
    int | None,
    Option("Use only so many multiprocessors, by a green context.", group="Where", metavar="N", least=1),
]
GpuDevice = Annotated[
    str, Option("nvidia:N, or jetson for its own GPU.", ("--device", "-d"), "Where", "NAME"),
]  # fmt: skip
CudaFile = Annotated[str, Option("CUDA C, or - for stdin.", metavar="FILE.cu", argument=True)]


def _beside(file: str, include: Sequence[str]) -> list[Path]:
    """Return the folders of headers: that of the file, then those asked for."""
    return [*([] if file == "-" else [Path(file).parent]), *map(Path, include)]


@options_class
class TransformOptions:
    """The options of ``edgetune schedule kernels transform``."""

    file: CudaFile = field(kw_only=False)
    explain: Annotated[bool, Option("Say what was done and why that is safe.", group="Problem")] = False
    check: Annotated[
        bool, Option("Run original and forms on the CPU and compare them bit by bit: needs g++.", group="Problem")
    ] = False
    launch: Annotated[
        Sequence[str],
        Option(
            "Check it so, too: 'vadd grid=6 block=256 a=float32[1500] n=int32:1500', beside the file's comments. "
            "Repeatable.",
            group="Problem", metavar="WORDS", repeatable=True,
        ),
    ] = ()  # fmt: skip
    device: Annotated[
        str | None,
        Option("Check on this GPU too: nvidia:N, or jetson for its own.", ("--device", "-d"), "Where", "NAME"),
    ] = None
    include: Include = ()
    output: Annotated[
        str | None, Option("Default: stdout, if nothing else is told.", ("-o", "--output"), "Files", "FILE")
    ] = None
    force: options.Force = False

    @property
    def checks(self) -> bool:
        """Whether kernels are tried."""
        return self.check or bool(self.launch)

    @property
    def folders(self) -> list[Path]:
        """Folders of headers."""
        return _beside(self.file, self.include)


@options_class
class ShrinkOptions:
    """The options of ``edgetune schedule kernels shrink``."""

    file: CudaFile = field(kw_only=False)
    grid: Annotated[str, Option("Blocks of a launch, e.g. 196 or 14,14.", group="Problem", metavar="X,Y,Z")]
    block: Annotated[str, Option("Threads of a block, e.g. 256 or 16,16.", group="Problem", metavar="X,Y,Z")]
    kernel: Annotated[
        str | None, Option("Which kernel. Default: the only one.", ("--kernel", "-k"), "Problem", "NAME")
    ] = None
    shared: Annotated[str, Option("Dynamic shared memory of a block, e.g. 4KiB.", group="Problem", metavar="SIZE")] = (
        "0"
    )
    gpu: Annotated[str, Option("Which GPU, e.g. orin-agx.", ("--gpu", "-g"), "Where", "NAME")] = "orin-agx"
    arch: Annotated[str | None, Option("Compile for, e.g. sm_87. Default: the GPU's.", group="Where", metavar="SM")] = (
        None
    )
    keep: Annotated[str | float, Option("Keep the best of those that fit.", metavar="SHARE")] = "20%"
    costs: Annotated[
        str | None, Option("What launches cost here, as calibrate measured.", group="Files", metavar="FILE")
    ] = None
    launch_time: Annotated[
        str | float | None, Option("What a launch takes. Default: of --costs, else the catalogue.", metavar="TIME")
    ] = None
    most_overhead: Annotated[
        str | float | None,
        Option("What all launches of a kernel may take. Default: 64 launches.", metavar="TIME"),
    ] = None
    strict_paper: Annotated[bool, Option("Launch a slice as that many blocks, as Miriam does.")] = False
    wiscore: Annotated[str, Option("corrected, or literal: as printed, S_be twice.", metavar="FORM")] = "corrected"
    include: Include = ()
    define: Annotated[
        Sequence[str], Option("E.g. TILE=16. Repeatable.", ("--define", "-D"), "How", "MACRO", repeatable=True)
    ] = ()
    fmad: Annotated[bool, Option("Let a * b + c be rounded once.", ("--fmad/--no-fmad",))] = True
    output: Annotated[
        str | None, Option("Default: the pipe, else kept.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    figure: Annotated[str | None, Option("Draw what is kept: .svg, .png, .pdf.", group="Files", metavar="FIGURE")] = (
        None
    )
    force: options.Force = False

    @property
    def folders(self) -> list[Path]:
        """Folders of headers."""
        return _beside(self.file, self.include)


@options_class
class ShareOptions:
    """The options that ``simulate`` and ``run`` share; what is ``None`` is as the file of tasks says."""

    tasks: Annotated[
        str, Option("A YAML file of tasks and networks.", metavar="TASKS", argument=True)
    ] = field(kw_only=False)  # fmt: skip
    policy: Annotated[
        str | None,
        Option(
            "sequential, multistream, barrier, elastic, or several. Default: that of the file.",
            ("--policy", "-p"), metavar="LIST",
        ),
    ] = None  # fmt: skip
    duration: Annotated[
        str | float | None,
        Option("How long requests come, e.g. 2s. Default: that of the file.", group="Problem", metavar="TIME"),
    ] = None
    kept: Annotated[
        Sequence[str],
        Option(
            "Pieces that shrink kept; for kernels in no such file they are worked out. Repeatable.",
            group="Files", metavar="FILE", repeatable=True,
        ),
    ] = ()  # fmt: skip
    output: Annotated[
        str | None, Option("The timeline. Default: kernels.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    view: Annotated[
        str | None,
        Option("What to draw: gantt, gantt:POLICY or gantt:POLICY@10ms-30ms.", group="Files", metavar="NAME"),
    ] = None
    force: options.Force = False

    plot: Annotated[str | None, Option("Draw it: svg, png or pdf.", group="Files", metavar="FILE")] = None
    seed: Annotated[int | None, Option("Of random arrivals. Default: that of the file.", metavar="N", least=0)] = None


@options_class
class SimulateOptions(ShareOptions):
    """The options of ``edgetune schedule kernels simulate``."""

    gpu: Annotated[
        str | None, Option("Which GPU, e.g. orin-nano. Default: that of the file.", group="Where", metavar="NAME")
    ] = None
    assume: Annotated[
        Sequence[str],
        Option(
            "Numbers that no catalogue has: launch, host, gap and turn (times), bandwidth and serial (shares), "
            "saturating (threads), e.g. host=20us. Repeatable.",
            metavar="NAME=VALUE", repeatable=True,
        ),
    ] = ()  # fmt: skip


@options_class
class RunOptions(ShareOptions):
    """The options of ``edgetune schedule kernels run``."""

    plot: Annotated[str | None, Option("Draw it: svg, png or pdf; needs --blocks.", group="Files", metavar="FILE")] = (
        None
    )
    seed: Annotated[
        int | None,
        Option("Of random arrivals and contents. Default: that of the file.", metavar="N", least=0),
    ] = None
    device: GpuDevice = "nvidia:0"
    sms: Multiprocessors = None
    blocks: Annotated[bool, Option("Have blocks write down where and when they run, which costs time.")] = False
    include: Annotated[
        Sequence[str],
        Option("Look for headers here, too. Repeatable.", ("--include", "-I"), "Files", "DIR", repeatable=True),
    ] = ()


@options_class
class BenchOptions:
    """The options of ``edgetune schedule kernels bench``."""

    workloads: Annotated[
        Sequence[str],
        Option("A, B, C or D. Default: all four.", metavar="WORKLOAD", argument=True, repeatable=True),
    ] = field(default=(), kw_only=False)
    policy: Annotated[str, Option("Policies, in the order of the first turn.", ("--policy", "-p"), metavar="LIST")] = (
        "sequential,multistream,barrier,elastic"
    )
    duration: Annotated[
        str | float, Option("How long requests come, in each run.", group="Problem", metavar="TIME")
    ] = "1s"
    load: Annotated[
        str | float | None,
        Option(
            "Critical requests at a rate such that alone they take this share of the time; A has no rate.",
            group="Problem", metavar="SHARE",
        ),
    ] = None  # fmt: skip
    deadline: Annotated[
        float, Option("Of critical requests: times their median alone.", group="Problem", metavar="FACTOR", least=1)
    ] = 2.0
    gpu: Annotated[str, Option("Which GPU to simulate, e.g. orin-nano.", group="Where", metavar="NAME")] = "orin-agx"
    device: Annotated[
        str | None, Option("Run on a GPU instead: nvidia:0, or jetson.", ("--device", "-d"), "Where", "NAME")
    ] = None
    sms: Annotated[
        int | None,
        Option("Use only so many multiprocessors of it, by a green context.", group="Where", metavar="N", least=1),
    ] = None
    turns: Annotated[int, Option("How often each policy runs.", metavar="N", least=1, most=1000)] = 3
    seed: options.Seed = 0
    output: Annotated[
        str | None, Option("The figures, .json. Default: bench.json.", ("-o", "--output"), "Files", "FILE")
    ] = None
    force: options.Force = False


@options_class
class CalibrateOptions:
    """The options of ``edgetune schedule kernels calibrate``."""

    device: GpuDevice = "nvidia:0"
    sms: Multiprocessors = None
    output: Annotated[
        str | None, Option("Default: the cache, where `run` looks for it.", ("-o", "--output"), "Files", "FILE")
    ] = None
    force: options.Force = False
