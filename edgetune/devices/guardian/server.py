"""The guardian's session: save the snapshot, set modes, and restore every setting however the session ends.

requests --> apply: snapshot --> journal (synced) --> first write ... --> restore, verified --> journal removed
                                      |                                        ^
                                      +--- killed, power lost --- next start --+
"""

import time
from contextlib import suppress
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import check_mode
from edgetune.devices.control import BoardControl, RestorePlan, Snapshot, describe_change, same_configuration
from edgetune.devices.guardian.journal import STATES, GuardianJournalEntry, Journals, State
from edgetune.devices.guardian.protocol import (
    PROTOCOL,
    Apply,
    LineChannel,
    Stopped,
    StopSignals,
    failure,
    parse_request,
    space_to_plain,
    success,
)
from edgetune.errors import DeviceError, EdgetuneError, NotRestoredError

_PLANS = 4
"""Attempts of a restore while a user changes the configuration."""


class Session:
    """One guardian's session on a device, with the snapshot from before the first change.

    Args:
        control: Sets and restores the knobs.
        journals: Storage of the snapshot.
        stop: Signals, which interrupt only the setting of a mode.
    """

    def __init__(self, control: BoardControl, journals: Journals, stop: StopSignals) -> None:
        self._control = control
        self._journals = journals
        self._stop = stop
        self._found: Snapshot | None = None
        self._left: Snapshot = {}
        self._configuration = control.configuration()
        self._settled = self._looked = False
        self.recovered: list[str] = []
        """Sentences about what was restored of earlier runs."""
        self.notes: list[str] = []
        """Sentences about settings of this run that were correctly restored to other values than found."""
        self.device, self.space = control.name, control.space
        control.learnt = self._note

    def settle(self) -> None:
        """Restore what an earlier run left, once; called before any other request.

        Raises:
            NotRestoredError: see ``recover``.
        """
        if not self._settled:
            self._settled = True
            self.recovered += recover(self._control, self._journals)

    def _note(self, found: Snapshot) -> None:
        self._journals.begin(found, self._configuration)
        self._found = found

    def _require_configuration(self) -> None:
        """Check that the configuration, from which the modes on offer come, has not changed.

        Raises:
            DeviceError: the configuration has changed.
        """
        now = self._control.configuration()
        if now != self._configuration:
            change = describe_change(self._configuration, now)
            hint = "run the command again: it keeps to the limits that hold then"
            raise DeviceError(f"the configuration of {self.device} changed during the run: {change}", hint)

    def apply(self, mode: Mode, *, fan: bool = False) -> Mode:
        """Set a mode and return the mode read back; the first call writes the journal before any change.

        Raises:
            DeviceError: see ``BoardControl.apply``; the journal cannot be written; the configuration has changed.
        """
        if self._found is None:
            found = self._control.snapshot()
            self._require_configuration()
            self._follow_configuration(found)
            self._note(found)
        assert self._found is not None
        self._require_configuration()
        self._left = {}
        with self._stop.interruptible():
            if fan:
                self._control.fan_to_maximum(self._found)
            now = self._control.apply(mode, self._found)
        self._left = self._present()
        return now

    def _follow_configuration(self, found: Snapshot) -> None:
        """Replace what a kept mode goes back to by its values in a configuration applied since then.

        This run's settings would hide from a later restore what that configuration set.
        """
        with suppress(NotRestoredError):  # a damaged journal stops ``keep`` and ``undo``
            kept = self._journals.read("kept")
            if (
                kept is not None and kept.configuration and self._configuration and kept.left != found
                and not self._journals.restarted_since(kept)
                and not same_configuration(kept.configuration, self._configuration)
            ):  # fmt: skip
                target = self._control.plan_restore(kept.snapshot, kept.configuration).target
                self._journals.write(kept, snapshot=target, configuration=self._configuration, left={})

    def _present(self) -> Snapshot:
        """Return the settings as the last mode left them; empty if the configuration may have changed meanwhile."""
        with suppress(DeviceError):
            present = self._control.snapshot() if self._configuration else {}
            if self._control.configuration() == self._configuration:
                return present
        return {}

    def read(self) -> Mode:
        """Return the present knobs."""
        return self._control.read()

    def restore(self) -> None:
        """Restore and verify every setting, then remove the journal; idempotent.

        Raises:
            NotRestoredError: a setting is not as it was found; the journal stays.
        """
        if self._found is not None:
            plan = restore_found(self._control, self._found, self._configuration, self._left)
            self._journals.end()
            self._found = None
            if plan.note:
                self.notes.append(_describe_restored(self.device, plan))

    def keep(self) -> None:
        """Leave the mode in place until ``undo``."""
        if self._found is not None:
            self._journals.keep(self._found, self._configuration, self._left)
            self._found = None

    def undo(self) -> list[str]:
        """Restore the settings from before ``keep``, and return one sentence about it, or none.

        Raises:
            NotRestoredError: a setting is not as it was found, or the journal is damaged; the journal stays.
        """
        self.restore()
        return recover(self._control, self._journals, "kept")

    def left(self) -> list[str]:
        """Return what ``settle`` and ``undo`` would restore, one sentence per journal, without changing anything."""
        self._looked = True
        return [sentence for state in STATES if (sentence := _describe_left(self._control, self._journals, state))]

    def forget(self) -> list[str]:
        """Restore what is possible, remove the journals in any case, and return sentences, failures included.

        Raises:
            DeviceError: a journal cannot be removed.
        """
        sentences: list[str] = []
        self._settled = True
        with suppress(NotRestoredError):
            self.restore()  # the journal reports the rest below
        self._found = None
        for state in STATES:
            try:
                sentences += recover(self._control, self._journals, state)
            except NotRestoredError as error:
                self._journals.end(state)
                sentences.append(f"{error.message}; this is forgotten now")
        return sentences

    def close(self) -> None:
        """Restore every setting, those of an earlier run too unless only reads were requested.

        Raises:
            NotRestoredError: a setting is not as it was found.
        """
        if not self._looked:
            self.settle()
        self.restore()


def serve(session: Session, lines: LineChannel) -> None:
    """Answer requests until the input ends, the reader closes or a signal arrives; then restore every setting.

    Args:
        session: Executes the requests.
        lines: Channel of requests and replies.

    Raises:
        NotRestoredError: the device is not as it was found.
        Exception: an internal error, raised after the restore.
    """
    try:
        with suppress(Stopped, ConnectionError):
            _answer_all(session, lines)
    finally:
        session.close()


def _answer_all(session: Session, lines: LineChannel) -> None:
    while True:
        try:
            line = lines.read()
            if line is None:
                return
            if not line:
                continue
            request = parse_request(line)
        except EdgetuneError as error:
            lines.write(failure(None, error))
            continue
        if request.request not in ("left", "forget"):
            session.settle()
        try:
            if isinstance(request, Apply):
                mode = check_mode(request.mode, session.space, session.device)
                reply = success(request.id, mode=session.apply(mode, fan=request.fan).knobs())
            else:
                reply = success(request.id, **_execute(request.request, session))
        except EdgetuneError as error:
            reply = failure(request.id, error)
        lines.write(reply)


def _execute(request: str, session: Session) -> dict[str, Any]:
    """Execute a request without arguments and return the facts of its reply."""
    if request == "hello":
        space = space_to_plain(session.space)
        return {"protocol": PROTOCOL, "device": session.device, "space": space, "recovered": session.recovered}
    if request == "read":
        return {"mode": session.read().knobs()}
    if request in ("undo", "left", "forget"):
        return {"recovered": getattr(session, request)()}
    if request == "restore":
        session.restore()
    else:
        session.keep()
    return {}


def restore_found(control: BoardControl, found: Snapshot, then: str, left: Snapshot) -> RestorePlan:
    """Restore every setting within the limits of the configuration in force, and return the plan.

    The restore is repeated if the configuration changed meanwhile, or if an online core now shows more limits.

    Args:
        control: The device's control.
        found: The snapshot.
        then: The configuration at the time of the snapshot.
        left: The settings as the last mode left them; empty where unknown.

    Raises:
        NotRestoredError: settings differ from the plan; the message has one sentence for each.
    """
    plan, remedy = RestorePlan(found), ""
    try:
        then = _configuration_applied(control, then, left)
        for _ in range(_PLANS):
            plan = control.plan_restore(found, then)
            wrong = control.carry_out(plan)
            if control.plan_restore(found, then) == plan:
                break
        wrong = [*plan.withheld, *wrong]
        remedy = plan.remedy
    except Exception as error:  # a bug in the control must not count as a restored board
        wrong = [f"putting it back failed: {type(error).__name__}: {error}"]
    if wrong:
        why = f" ({plan.note})" if plan.note else ""
        raise NotRestoredError(
            f"{control.name} is not as it was found: {'; '.join(wrong)}{why}",
            remedy
            or f"run `edgetune device restore {control.name}`, or `edgetune device restore {control.name} --forget` to "
            "give up the settings that cannot be restored; a restart of the machine undoes every setting",
        )
    return plan


def _configuration_applied(control: BoardControl, then: str, left: Snapshot) -> str:
    """Return the configuration to compare the present one with: the present one itself if it was only written down.

    A changed configuration that changed no setting since the last mode was set was saved for the next start, not
    applied, so the settings found before are still those to restore.
    """
    with suppress(DeviceError):
        if left and control.snapshot() == left:
            return control.configuration()
    return then


def recover(control: BoardControl, journals: Journals, state: State = "run") -> list[str]:
    """Restore from a journal of an earlier guardian, and return one sentence about it, or none without a journal.

    Nothing is restored if the machine has restarted, which resets every setting, and the configuration has changed: the
    settings are then those of the new configuration.

    Raises:
        NotRestoredError: the journal is damaged, or a setting could not be restored; the journal stays.
    """
    entry = journals.read(state)
    if entry is None:
        return []
    if _outdated(control, journals, entry):
        change = describe_change(entry.configuration, control.configuration())
        done = f"nothing of {entry.device} was put back, for {change}"
    else:
        done = _describe_restored(entry.device, restore_found(control, entry.snapshot, entry.configuration, entry.left))
    journals.end(state)
    return [f"{_describe(entry)}{_describe_restart(journals, entry)}: {done}"]


def _outdated(control: BoardControl, journals: Journals, entry: GuardianJournalEntry) -> bool:
    """Whether the machine has restarted since the journal and the device's configuration has changed."""
    if not (entry.configuration and journals.restarted_since(entry)):
        return False
    return not same_configuration(entry.configuration, control.configuration())


def _describe_left(control: BoardControl, journals: Journals, state: State) -> str:
    """Return a sentence about what ``recover`` would restore; empty where there is no journal."""
    try:
        entry = journals.read(state)
        if entry is None:
            return ""
        if _outdated(control, journals, entry):
            change = describe_change(entry.configuration, control.configuration())
            return f"{_describe(entry)}{_describe_restart(journals, entry)}: nothing would be put back, for {change}"
        then = _configuration_applied(control, entry.configuration, entry.left)
        plan, now = control.plan_restore(entry.snapshot, then), control.snapshot()
    except EdgetuneError as error:
        return error.message
    differing = [
        f"/{path} from {now.get(path, 'what it is')} to {value}"
        for path, value in plan.target.items()
        if now.get(path) != value
    ]
    what = f"would put back {', '.join(differing)}" if differing else "every setting is as it goes back to"
    words = [what, *plan.withheld, *([plan.note] if plan.note else [])]
    return f"{_describe(entry)}{_describe_restart(journals, entry)}: {'; '.join(words)}"


def _describe_restored(device: str, plan: RestorePlan) -> str:
    return f"{device} was put back" + (
        f", but not to all that was found: {plan.note}" if plan.note else " as it was found"
    )


def _describe_restart(journals: Journals, entry: GuardianJournalEntry) -> str:
    return "; the machine has been restarted since" if journals.restarted_since(entry) else ""


def _describe(entry: GuardianJournalEntry) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.started_s))
    what = f"an earlier run, process {entry.pid} of {began}, was killed"
    if entry.state == "kept":
        what = f"a mode was left in place on {began}"
    return what
