"""The resources that tasks share on a machine: cores, storage and memory, and the cost of holding more than fits.

held:  [======== in memory, up to the limit ========|== excess, on storage ==]
a task touches some of it, and waits for the part that is not there
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paging:
    """A model of the time that paging adds to a task while more is held than fits.

    Of the bytes that a task touches, the share ``thrash * excess / held``, at most all, is not there. A ``thrash`` of 1
    stands for pages that leave at random. The kernel lets the pages leave first that were used longest ago, which are
    those that networks, going through their weights in a circle, need next: then it is more.

    Args:
        s_per_byte: Time to bring a byte back, s, including the time to write another one out where that is needed.
        thrash: Factor by which a needed page is likelier to have left than any other page.
    """

    s_per_byte: float = 15.7e-9
    """64 MB/s to write a byte out and read it back. This and the thrash are a least-squares fit to whole networks of
    217 to 377 MiB that were loaded under 90 to 60 % of the memory that takes (a virtual x86 machine, Linux 6.18, a swap
    file on a disk that reads 4 GB/s). Loads took 0.4 to 1.3 of what the model says, the least where a tenth was
    missing; executions right after a load paid less."""
    thrash: float = 1.0

    def extra_s(self, touched_bytes: int, held_bytes: int, limit_bytes: int) -> float:
        """Return the additional time of a task that touches so many bytes, s; 0 while everything fits."""
        return self.s_per_byte * touched_bytes * self.share_gone(held_bytes, limit_bytes)

    def share_gone(self, held_bytes: int, limit_bytes: int) -> float:
        """Return the share of the touched bytes that is not in memory, 0 to 1."""
        return min(1.0, self.thrash * (held_bytes - limit_bytes) / held_bytes) if held_bytes > limit_bytes else 0.0


FITS = Paging(s_per_byte=0.0)
"""Memory without end: nothing leaves."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources that tasks share.

    Args:
        cores: Number of executions that run at full speed at once.
        streams: Number of loads that run at full speed at once; more loads share the bandwidth of storage.
        memory_bytes: The physical memory; ``None``: without a limit.
        paging: The cost of holding more than that.
        swap_bytes: Swap beside that memory: the kernel kills a process that holds more of its own than both, pages of
            files left out, which leave instead. ``None``: without a limit.
    """

    cores: int
    streams: int = 1
    memory_bytes: int | None = None
    paging: Paging = FITS
    swap_bytes: int | None = None
