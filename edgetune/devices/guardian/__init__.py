"""The guardian: a small process, the only privileged one, that sets modes and always restores the board.

    edgetune (a user)  --one-line JSON requests-->  guardian (root)  --writes-->  the kernel's files
                       <--one-line JSON replies---       |
                                                         +--> journal: snapshot, on the disk before any write

It restores every setting on request, at the end of its input (also when SIGKILL ends its parent), and on SIGINT,
SIGTERM and SIGHUP. After a kill of the guardian itself or a power failure, the next guardian restores from the journal.
"""
