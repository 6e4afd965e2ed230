"""What the tests of the command line share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.strip().splitlines()


def assert_two_lines(ended: Ended, code: int) -> None:
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert len(ended.lines) == 2, ended.err
    assert ended.lines[0].startswith("error: ")
    assert ended.lines[1].startswith("hint: ")
    assert all(len(line) > len("error: x") for line in ended.lines)
