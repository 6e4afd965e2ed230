"""The command that a file records."""

import shlex

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.origin import command_runs, running_command


def test_a_header_records_the_command_that_runs_and_a_python_program_has_none():
    with command_runs(["profile", "my net.onnx", "-o", "a.parquet"]):
        assert Header.new("profile", 2).command == "edgetune profile 'my net.onnx' -o a.parquet"
    assert Header.new("profile", 2).command == ""


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        (["--", "serve", "--api-key", "s3cret", "--port", "80"], ["--", "serve", "--api-key", "***", "--port", "80"]),
        (["--", "serve", "--hf_token=s3cret"], ["--", "serve", "--hf_token=***"]),
        (["--", "env", "AWS_SECRET=s3cret", "run"], ["--", "env", "AWS_SECRET=***", "run"]),
        (["http://me:s3cret@localhost:80/v1"], ["http://***@localhost:80/v1"]),
        (["--", "curl", "-H", "Authorization: Bearer s3cret"], ["--", "curl", "-H", "Authorization: ***"]),
        (["--", "curl", "-H", "X-Api-Key: s3cret"], ["--", "curl", "-H", "X-Api-Key: ***"]),
        (["--tokens", "128", "--keep-awake", "yes"], ["--tokens", "128", "--keep-awake", "yes"]),
    ],
)
def test_secrets_are_masked_and_nothing_else(words: list[str], recorded: list[str]):
    with command_runs(["profile", *words]):
        assert shlex.split(running_command()) == ["edgetune", "profile", *recorded]
