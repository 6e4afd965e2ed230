"""Child processes: what runs other people's programs, so that their end is not the end of this one."""
