class StudyError(Exception):
    """A mistake that the user can mend; the command line prints its message without a traceback."""
