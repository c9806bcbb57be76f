import re

STOPPED = 143
"""Exit status of a process that SIGTERM stopped, as a shell says it, or whose terminal was closed."""
UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class StudyError(Exception):
    """A mistake that the user can mend; the command line prints its message without a traceback."""


def printable(text: str) -> str:
    """Returns a text with control characters and lone surrogates as escapes, which SVG and parquet refuse.

    Messages of libraries have them, in coloured text and in file names that are no UTF-8.
    """
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
