"""Commands and options that earlier versions had, each with what replaces it."""

from edgetune.errors import InputError

REPLACED: dict[str, str] = {
    "completions": "take the scripts of completions/, or what _EDGETUNE_COMPLETE=source_bash edgetune prints",
    "device list": "edgetune device lists them",
    "zoo list": "edgetune zoo lists them",
    "profile --optimizer": "leave the option out: Adam trains",
    "profile --dataset-samples": "save so many: numpy.savez(FILE, x=x[:N], y=y[:N])",
    "profile --calibration": "quantise the network with its scales (QDQ), which TensorRT reads",
    "search --calibration": "quantise the network with its scales (QDQ), which TensorRT reads",
    "interleave --govern": "--adapt heeds --power-budget: it plans anew where power is over it or the budget changes",
    "roofline --view": "--plot FILE draws the roofs of time and energy; the printed table has each batch size and mode",
    "schedule run --chrome-trace": "--plot FILE.html draws the run as a page that zooms",
    "schedule generate": "edgetune schedule run --simulate simulates a file of jobs, see edgetune help memory",
    "schedule run --safety": "leave the option out: layers are taken for 1.1 times their measure",
    "schedule profile --target-ci": "leave the option out, or take exactly N samples with --repeats N",
    "schedule profile --layer-timeout": "leave the option out: a layer that takes five minutes has failed",
    "schedule profile --whole": "leave the option out: a simulated bulk has the costs of all its layers",
    "schedule run --variant": "name it behind the policy, e.g. --policy masa:code",
    "schedule robustness": "edgetune schedule run --simulate --costs FILE compares policies",
    "schedule graph": "edgetune schedule run --simulate --plot FILE draws the tasks of a run",
    "search evaluate --published": "compare its strategies: --strategies gmd-study,als-study,nn-study,random-study",
    "search evaluate --misspecified": "leave the option out, and give tables of a device to judge roofline",
    "fleet join --unit": "a systemd unit that runs the command is a few lines of your own",
    "fleet start --unit": "a systemd unit that runs the command is a few lines of your own",
    "search --samples": "leave it out: the time per sample of the plan times your samples is that of a training",
    "search --good-enough": "--max-points N measures more where the expected gain, which a search says, is large",
    "search --soak": "edgetune profile --soak keeps a mode running",
    "search evaluate --convergence": "edgetune search --kind accuracy --convergence FILE prints the baselines",
    "search evaluate --like": "edgetune search TABLE --like FILE shows what a profile of another network spares",
    "search evaluate --plot": "-o FILE keeps a row for each problem, for a figure of your own",
    "search --roofline": "leave the option out: operators have not been shown to help; --like FILE does",
    "search --reusable": "--strategy pareto finds the front of time and power, for budgets that will change",
    "search evaluate --tie": "leave the option out: points_to_3_percent counts answers near the best as good",
    "search sensitivity": "compare plans of edgetune search TABLE --kind accuracy --convergence FILE",
    "schedule kernels run --launcher": "leave the option out: the loop in Python launches",
    "schedule kernels bench --launcher": "leave the option out: the loop in Python launches",
    "schedule kernels transform --indexing": "leave the option out: blocks compute their indices",
    "schedule kernels transform --ptx": "CUDA C is always compiled to PTX: --arch names the architecture",
    "schedule kernels shrink --output": "leave the option out: the pieces are printed, with --json all of them",
    "schedule kernels shrink -o": "leave the option out: the pieces are printed, with --json all of them",
    "schedule kernels shrink --figure": "leave the option out: the pieces are printed, with --json all of them",
    "schedule kernels shrink --force": "leave the option out: the command writes no file",
    "schedule kernels simulate --kept": "leave the option out: policies compute the pieces before a run",
    "schedule kernels run --kept": "leave the option out: policies compute the pieces before a run",
    "schedule kernels simulate --assume": "leave the option out: a timeline tells the figures of its model",
    "schedule kernels bench --assume": "leave the option out: the document tells the figures of its model",
    "schedule kernels calibrate": "run and bench measure what a launch takes when they open the GPU",
    **{
        f"schedule kernels shrink --{option}": "leave the option out: pieces are chosen as the policies choose them"
        for option in (
            "launch-time",
            "most-overhead",
            "turn-time",
            "most-turns",
            "keep",
            "strict-paper",
            "wiscore",
            "costs",
        )
    },
    **{
        f"schedule kernels shrink {option}": "compile with nvcc -ptx and its options, and give the PTX"
        for option in ("--define", "-D", "--fmad", "--no-fmad")
    },
    "schedule kernels bench --admit-within": "edgetune schedule kernels simulate and run take it, for a file of tasks",
    "schedule kernels bench --load": "edgetune schedule kernels simulate takes any arrivals from a file of tasks",
    "schedule kernels bench --in-flight": "edgetune schedule kernels simulate takes several tasks of one network",
    "schedule kernels bench --deadline": "edgetune schedule kernels simulate takes the deadline of each task",
    "schedule kernels shrink --arch": "--gpu names the GPU, whose architecture is compiled for",
    "schedule kernels shrink --indexing": "leave the option out: blocks compute their indices",
    "schedule kernels run --indexing": "leave the option out: blocks compute their indices",
    "schedule kernels bench --indexing": "leave the option out: blocks compute their indices",
    "device --check": "python tests/benchmarks/twin.py check compares the twin with published figures",
    "device --leave-one-out": "python tests/benchmarks/twin.py check --leave-one-out calibrates without each network",
    "device --calibrate": "python tests/benchmarks/twin.py fit FILE writes the constants of the twin",
    "device --force": "leave the option out: the command writes no file",
    "device --modes": "edgetune device modes NAME SPEC prints them",
    "device --seed": "leave the option out: a twin's name takes it, twin:orin-agx?noise=on&seed=3",
    "device restore --force": "the error names the process that holds the device, and how to end it",
    "device units": "edgetune doctor prints the line of sudoers that lets a user set modes",
    "device watch --json": "leave the option out: each reading is a line of JSON",
    "report --title": "leave the option out: the title says what the files are of, and on which devices",
    "compare --plot": "the printed table has each ratio with its interval, --json all points for a figure of your own",
    "compare --force": "leave the option out: the command writes no file",
    "schedule kernels energy": "compare policies with edgetune schedule kernels simulate",
}
"""The words after ``edgetune`` of a removed command, or of a command and a removed option, and the hint for them."""


def removed(command_path: str, word: str) -> InputError | None:
    """Return the error for a removed command or option; ``None`` for words that edgetune never knew.

    Args:
        command_path: The words of the command that ``word`` was given to, e.g. ``"edgetune schedule"``.
        word: The command or option, e.g. ``"graph"`` or ``"--chrome-trace"``.
    """
    words = " ".join((*command_path.split()[1:], word))
    if (hint := REPLACED.get(words)) is None:
        return None
    what = "the option" if word.startswith("-") else "the command"
    return InputError(f"{what} '{words}' was removed", hint)
