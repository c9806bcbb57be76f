STOPPED = 143
"""Exit status of a process that SIGTERM stopped, as a shell says it."""


class StudyError(Exception):
    """A mistake that the user can mend; the command line prints its message without a traceback."""
