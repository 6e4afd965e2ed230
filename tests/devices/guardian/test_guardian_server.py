"""The guardian's work on a toy board: killed, interrupted, refused or cut off at every single write."""

import json
import os
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_board import FOUND, HIGH, LOW, MEMORY, TABLES, ToyControl, make_toy, power_cut

from edgetune.devices.guardian.protocol import LONGEST_LINE_BYTES
from edgetune.testing.fake_files import Killed
from fakes.guardian_calls import apply_line as apply
from fakes.guardian_calls import guard
from fakes.guardian_calls import request_line as request

MODES = (apply(1, gpu_mhz=200, mem_mhz=1600), apply(2, gpu_mhz=400), apply(3, gpu_mhz=100, mem_mhz=1600))
WRITES = 12
"""Writes of a run through MODES, its restore included: ``test_the_modes_need_that_many_writes``."""


@pytest.fixture
def kernel(tmp_path):
    return make_toy(tmp_path)


def journal(root, state="run"):
    return root / f"var/lib/edgetune/toy.{state}.json"


def guard_toy(kernel, *lines, **options):
    return guard(ToyControl(kernel), kernel.root, *lines, **options)


def assert_as_found(kernel):
    assert kernel.settings() == FOUND
    assert not journal(kernel.root).exists()


def test_the_modes_need_that_many_writes(kernel):
    assert guard_toy(kernel, *MODES).code == 0
    assert len(kernel.writes) == WRITES


def test_modes_are_set_read_back_and_undone_at_the_end_of_input(kernel):
    outcome = guard_toy(kernel, *MODES, request(4, "read"))
    assert outcome.replies == [
        {"id": 1, "ok": True, "mode": {"gpu_mhz": 200.0, "mem_mhz": 1600.0}},
        {"id": 2, "ok": True, "mode": {"gpu_mhz": 400.0, "mem_mhz": 800.0}},
        {"id": 3, "ok": True, "mode": {"gpu_mhz": 100.0, "mem_mhz": 1600.0}},
        {"id": 4, "ok": True, "mode": {"gpu_mhz": 100.0, "mem_mhz": 1600.0}},
    ]
    assert (outcome.code, outcome.errors) == (0, "")
    assert_as_found(kernel)


def test_what_was_found_is_on_the_disk_before_the_first_write(kernel):
    seen = []
    kernel.fail_at(1, lambda *_: seen.append(json.loads(journal(kernel.root).read_text())["snapshot"]))
    guard_toy(kernel, *MODES)
    assert seen == [FOUND]


def test_nothing_is_written_when_the_journal_cannot_be(kernel, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (kernel.root / "var/lib/edgetune").mkdir(0o700)
    outcome = guard_toy(kernel, *MODES)
    assert kernel.writes == []
    assert [reply["type"] for reply in outcome.replies] == ["DeviceError"] * 3
    assert "No space left" in outcome.replies[0]["message"]
    assert list((kernel.root / "var/lib/edgetune").glob("*.json*")) == []


def test_hello_tells_the_space_and_changes_nothing(kernel):
    outcome = guard_toy(kernel, request(7, "hello"))
    hello = outcome.replies[0]
    assert hello["space"]["knobs"]["gpu_mhz"] == [100.0, 200.0, 300.0, 400.0]
    assert (hello["protocol"], hello["device"], hello["recovered"]) == (1, "toy", [])
    assert kernel.writes == []


def test_restore_on_request_and_setting_again(kernel):
    outcome = guard_toy(kernel, MODES[0], request(2, "restore"), request(3, "restore"), request(4, "read"), MODES[0])
    assert [reply["ok"] for reply in outcome.replies] == [True] * 5
    assert outcome.replies[3]["mode"] == {"mem_mhz": 800.0}
    assert_as_found(kernel)


@pytest.mark.parametrize("fault", ["kill-before", "kill-after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
@pytest.mark.parametrize("how", ["next guardian", "--restore"])
def test_killed_at_any_write_it_is_put_back(kernel, write, fault, how):
    kernel.fail_at(write, fault)
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    kernel.revive()
    outcome = guard_toy(kernel, request(1, "hello"), only_restore=how == "--restore")
    assert outcome.code == 0
    assert_as_found(kernel)
    if how == "next guardian":
        assert "was killed: toy was put back as it was found" in outcome.replies[0]["recovered"][0]


@pytest.mark.parametrize("second", range(1, 7))
@pytest.mark.parametrize("write", [2, 5, 8, 11])
def test_killed_again_while_it_is_being_put_back(kernel, write, second):
    kernel.fail_at(write, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    kernel.revive()
    kernel.fail_at(second, "kill-before")
    try:
        guard_toy(kernel)
    except Killed:
        kernel.revive()
    assert guard_toy(kernel).code == 0
    assert_as_found(kernel)


@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_power_lost_at_any_write(kernel, write):
    kernel.fail_at(write, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    power_cut(kernel.root)
    kernel.revive()
    outcome = guard_toy(kernel, request(1, "hello"))
    assert outcome.code == 0
    assert "the machine has been restarted since" in outcome.replies[0]["recovered"][0]
    assert_as_found(kernel)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_a_signal_at_any_write_ends_it_with_everything_put_back(kernel, write, number):
    kernel.fail_at(write, lambda *_: os.kill(os.getpid(), number))
    outcome = guard_toy(kernel, *MODES)
    assert (outcome.code, outcome.errors) == (0, "")
    assert_as_found(kernel)


def test_after_a_signal_no_further_setting_of_the_mode_is_written(kernel):
    kernel.fail_at(2, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    outcome = guard_toy(kernel, *MODES)
    assert outcome.replies == []
    assert kernel.writes == [(HIGH, "200"), (HIGH, "400")]


def test_a_second_signal_does_not_interrupt_the_putting_back(kernel):
    kernel.fail_at(2, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    for write in range(3, 8):
        kernel.fail_at(write, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert guard_toy(kernel, *MODES).code == 0
    assert_as_found(kernel)


@pytest.mark.parametrize("fault", ["EINVAL", "EBUSY", "ignored"])
def test_what_cannot_be_put_back_ends_with_6_and_a_sentence_and_can_be_put_back_later(kernel, fault):
    kernel.fail_at(6, fault)  # the only write of the memory's clock while it is put back
    outcome = guard_toy(kernel, MODES[0])
    assert kernel.writes[5:] == ([(MEMORY, "800")] if fault == "ignored" else [])
    assert outcome.code == 6
    error, hint = outcome.errors.splitlines()
    assert error == f"error: toy is not as it was found: /{MEMORY} is 1600, was 800"
    assert hint.startswith("hint: run `edgetune device restore toy`")
    assert journal(kernel.root).exists()
    assert guard_toy(kernel, only_restore=True).code == 0
    assert_as_found(kernel)


def test_a_request_to_restore_that_fails_is_tried_again_at_the_end(kernel):
    kernel.fail_at(6, "EBUSY")
    outcome = guard_toy(kernel, MODES[0], request(2, "restore"))
    assert outcome.replies[1]["type"] == "NotRestoredError"
    assert outcome.code == 0
    assert_as_found(kernel)


def test_a_guardian_that_cannot_put_back_an_earlier_run_does_not_start(kernel):
    kernel.fail_at(2, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    kernel.revive()
    for write in range(1, 9):
        kernel.fail_at(write, "EBUSY")
    outcome = guard_toy(kernel, request(1, "hello"))
    assert (outcome.code, outcome.replies) == (6, [])
    assert journal(kernel.root).exists()


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("fault", ["EINVAL", "EACCES", "ignored"])
def test_a_mode_that_is_refused_or_ignored_is_an_error_and_is_undone(kernel, write, fault):
    kernel.fail_at(write, fault)
    outcome = guard_toy(kernel, apply(1, gpu_mhz=200, mem_mhz=1600), apply(2, gpu_mhz=400))
    assert {reply["ok"] for reply in outcome.replies} >= {False}
    assert outcome.code == 0
    assert_as_found(kernel)


class Broken(ToyControl):
    """A control with a defect."""

    def apply(self, mode, found):
        super().apply(mode, found)
        raise ZeroDivisionError("a defect")


class Unrestorable(ToyControl):
    """A control whose restore has a defect."""

    def restore(self, found):
        raise KeyError("a defect")


def test_a_defect_inside_ends_it_after_everything_was_put_back(kernel):
    outcome = guard(Broken(kernel), kernel.root, *MODES)
    assert outcome.code == 1
    assert outcome.errors.startswith("error: unexpected in the guardian: ZeroDivisionError: a defect\nhint: ")
    assert_as_found(kernel)


def test_a_defect_in_putting_back_never_passes_for_success(kernel):
    outcome = guard(Unrestorable(kernel), kernel.root, *MODES)
    assert outcome.code == 6
    assert "KeyError" in outcome.errors
    assert journal(kernel.root).exists()


def test_nobody_reading_the_replies_ends_it(kernel):
    asked, ask = os.pipe()
    told, tell = os.pipe()
    os.write(ask, MODES[0])
    os.close(told)
    try:
        from edgetune.devices.guardian.program import run

        code = run("toy", lambda *_: ToyControl(kernel), kernel.root, requests=asked, replies=tell)
    finally:
        for descriptor in (asked, ask, tell):
            os.close(descriptor)
    assert code == 0
    assert_as_found(kernel)


def test_a_journal_of_another_board_is_never_carried_out(kernel):
    kernel.fail_at(3, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    kernel.revive()
    before = kernel.settings()
    journal(kernel.root).rename(journal(kernel.root).with_name("other.run.json"))
    other = ToyControl(kernel)
    other.name = "other"
    outcome = guard(other, kernel.root)
    assert outcome.code == 6
    assert "it is of 'toy'" in outcome.errors
    assert kernel.settings() == before


# What `edgetune device set` leaves in place.


def test_a_kept_mode_stays_until_it_is_undone(kernel):
    assert guard_toy(kernel, MODES[0], request(2, "keep")).code == 0
    assert kernel.settings() == {LOW: "200", HIGH: "200", MEMORY: "1600"}
    outcome = guard_toy(kernel, request(1, "hello"))
    assert outcome.replies[0]["recovered"] == []
    assert kernel.settings()[MEMORY] == "1600"
    undone = guard_toy(kernel, request(1, "undo"), request(2, "undo"))
    assert "a mode was left in place" in undone.replies[0]["recovered"][0]
    assert undone.replies[1]["recovered"] == []
    assert_as_found(kernel)


def test_a_run_on_top_of_a_kept_mode_goes_back_to_that_mode(kernel):
    guard_toy(kernel, MODES[0], request(2, "keep"))
    kernel.fail_at(2, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, apply(1, gpu_mhz=300))
    kernel.revive()
    guard_toy(kernel)
    assert kernel.settings() == {LOW: "200", HIGH: "200", MEMORY: "1600"}
    assert guard_toy(kernel, only_restore=True).code == 0
    assert_as_found(kernel)


def test_keeping_again_after_a_restart_goes_back_to_what_the_restart_gave(kernel):
    guard_toy(kernel, MODES[0], request(2, "keep"))
    power_cut(kernel.root)
    guard_toy(kernel, apply(1, gpu_mhz=200), request(2, "keep"))
    guard_toy(kernel, request(1, "undo"))
    assert kernel.settings() == {LOW: "100", HIGH: "300", MEMORY: "800"}


def kill(kernel):
    kernel.fail_at(3, "kill-after")
    with pytest.raises(Killed):
        guard_toy(kernel, *MODES)
    kernel.revive()


def test_what_is_left_is_reported_and_stays(kernel):
    kill(kernel)
    before = kernel.settings()
    (reply,) = guard_toy(kernel, request(1, "left")).replies
    assert f"/{HIGH} from {before[HIGH]} to 400" in reply["recovered"][0].partition("would put back ")[2]
    assert kernel.settings() == before
    assert journal(kernel.root).exists()


def test_after_a_look_an_earlier_run_is_still_put_back_before_anything_else(kernel):
    kill(kernel)
    outcome = guard_toy(kernel, request(1, "left"), MODES[0])
    assert [reply["ok"] for reply in outcome.replies] == [True, True]
    assert_as_found(kernel)


def test_what_cannot_be_put_back_is_reported_and_forgotten_of_this_run_too(kernel):
    kernel.fail_at(6, "EBUSY")
    kernel.fail_at(7, "EBUSY")
    outcome = guard_toy(kernel, MODES[0], request(2, "forget"), request(3, "left"))
    (told,) = outcome.replies[1]["recovered"]
    assert f"/{MEMORY} is 1600, was 800; this is forgotten now" in told
    assert (outcome.code, outcome.replies[2]["recovered"]) == (0, [])
    assert kernel.settings()[MEMORY] == "1600"
    assert not journal(kernel.root).exists()


# Whatever is sent.

REFUSED = [
    b"",
    b"hello\n",
    b"null\n",
    b"[]\n",
    b'"apply"\n',
    b"{}\n",
    b'{"id": 1}\n',
    b'{"id": 1, "request": "write", "path": "/etc/passwd", "value": "1"}\n',
    b'{"id": 1, "request": "hello", "root": "/"}\n',
    b'{"id": "1", "request": "hello"}\n',
    b'{"id": -1, "request": "hello"}\n',
    b'{"id": 1e999, "request": "hello"}\n',
    b'{"id": 1, "request": "apply"}\n',
    b'{"id": 1, "request": "apply", "mode": null}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": NaN}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": Infinity}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": 1e400}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": "200"}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": true}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": null}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": 200.0000001}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": -200}}\n',
    b'{"id": 1, "request": "apply", "mode": {"cpu_mhz": 200}}\n',
    b'{"id": 1, "request": "apply", "mode": {"/sys/power/state": 1}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": 200, "../../etc/passwd": 1}}\n',
    b'{"id": 1, "request": "apply", "mode": {"gpu_mhz": ' + b"9" * 5000 + b"}}\n",
    b"[" * 60_000 + b"\n",
    b'{"a":' * 10_000 + b"\n",
    b"\xff\xfe\x00\n",
    b'{"id": 1, "request": "apply", "mode": {"\\ud800": 1}}\n',
    b"x" * 60_000 + b"\n",
]


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line[:40].decode(errors="replace"))
def test_what_is_no_request_is_refused_and_nothing_is_written(kernel, line):
    outcome = guard_toy(kernel, line, request(9, "read"))
    assert [reply["ok"] for reply in outcome.replies] == ([] if line == b"" else [False]) + [True]
    assert all(len(reply.get("message", "")) < 400 for reply in outcome.replies)
    assert kernel.writes == []
    assert outcome.code == 0


def test_a_line_cut_short_by_the_end_of_input_is_not_carried_out(kernel):
    guard_toy(kernel, MODES[0].rstrip(b"\n"))
    assert kernel.writes == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 9) | json_values,
        "request": st.sampled_from(["hello", "apply", "read", "restore", "keep", "undo", "left", "forget"])
        | json_values,
        "mode": st.dictionaries(
            st.sampled_from(["gpu_mhz", "mem_mhz", "cpu_mhz"]) | st.text(),
            st.sampled_from([100, 200.0, 300, 400.0, 800, 1600.0]) | json_values,
            max_size=3,
        ),
        "path": json_values,
    },
)
lines = st.binary(max_size=300) | requests.map(lambda value: json.dumps(value).encode())


@given(st.lists(lines, max_size=12))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_sent_only_values_of_the_tables_are_written_and_the_end_puts_back(tmp_path, sent):
    kernel = make_toy(tmp_path)
    outcome = guard_toy(kernel, *(line.replace(b"\n", b" ") + b"\n" for line in sent), request(0, "undo"))
    assert outcome.code == 0
    assert len(outcome.replies) == sum(map(bool, sent)) + 1, "an empty line is a heartbeat"
    assert all(value in TABLES[path] for path, value in kernel.writes)
    assert_as_found(kernel)


def test_a_line_longer_than_any_request_is_refused_once_and_what_follows_is_heard(kernel):
    from edgetune.devices.guardian.protocol import LineChannel, StopSignals
    from edgetune.errors import InputError

    held, blocks = [], [b"x" * LONGEST_LINE_BYTES] * 40 + [b"\n" + request(1, "read")]

    class Counting(LineChannel):
        def _wait(self, descriptor, event, patience_s=None):
            held.append(len(self._pending))
            return os.write(ask, blocks.pop(0)) > 0

    asked, ask = os.pipe()
    with open(asked), open(ask, "w"), StopSignals() as stop:
        counted = Counting(asked, -1, stop, 60.0)
        with pytest.raises(InputError, match="longer than 65536 bytes"):
            counted.read()
        assert counted.read() == request(1, "read").rstrip()
    assert max(held) <= 2 * LONGEST_LINE_BYTES
