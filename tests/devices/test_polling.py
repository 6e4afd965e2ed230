"""A sensor read by a thread: only what is fresh, and a sensor that fails does not end the measurement."""

from edgetune.devices.capabilities import PowerReading
from edgetune.devices.telemetry import PolledRecording, SensorStoppedError, polled


def test_stale_and_missing_readings_are_not_kept():
    script = iter([PowerReading(10, 1.0), None, PowerReading(10, 9.0), PowerReading(20, 2.0)])
    recording = PolledRecording(lambda: next(script))
    for _ in range(4):
        recording.poll()
    assert recording.readings == (PowerReading(10, 1.0), PowerReading(20, 2.0))


def test_failing_sensor_is_noted_once_and_left_alone():
    calls = []

    def read():
        calls.append(1)
        raise OSError("gone")

    recording = PolledRecording(read)
    recording.poll()
    recording.poll()
    assert recording.failure == "gone"
    assert len(calls) == 1


def test_thread_reads_at_least_at_the_end():
    count = iter(range(1, 10**6))
    with polled(lambda: PowerReading(next(count), 1.0), period_s=60) as recording:
        assert recording.readings == ()
    assert recording.readings == (PowerReading(1, 1.0),)


def test_thread_reads_while_open():
    import threading

    seen = threading.Event()
    count = iter(range(1, 10**6))

    def read():
        reading = PowerReading(next(count), 1.0)
        if reading.time_ns >= 3:
            seen.set()
        return reading

    with polled(read, period_s=0.001) as recording:
        assert seen.wait(60)
    assert len(recording.readings) >= 3


def test_repeats_of_a_sensor_that_stopped_are_let_go():
    def read():
        if recording.readings and recording.readings[-1].time_ns == 30:
            raise SensorStoppedError("stuck", since_ns=10)
        return PowerReading(10 + 10 * len(recording.readings), 5.0)

    recording = PolledRecording(read)
    for _ in range(5):
        recording.poll()
    assert recording.failure == "stuck"
    assert recording.readings == (PowerReading(10, 5.0),)
