"""The guardian: a small process, the only one with privilege, that sets modes and always puts the board back.

    edgetune (a user)  --one-line JSON requests-->  guardian (root)  --writes-->  the kernel's files
                       <--one-line JSON replies---       |
                                                         +--> journal: what was found, on the disk before any write

It puts everything back when asked, at the end of its input (so also when its parent was killed by SIGKILL), on SIGINT,
SIGTERM and SIGHUP, and, from the journal, when the next guardian starts after it was killed itself or the power failed.
"""
