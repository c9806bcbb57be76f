"""Where a search is kept: an Optuna journal beside the results, or a PostgreSQL database that a cluster shares.

A search has one writer at a time. Workers that share it wait for each other and find what the others have done, so that
nothing is tried twice; what runs side by side are the arms. A killed worker's lock is free at once.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ssma.errors import StudyError
from ssma.study.ids import seed_from
from ssma.study.locks import exclusive

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("ssma.tune")

KEEP_ALIVE = {"keepalives_idle": 60}
"""Seconds after which an idle connection shows signs of life: firewalls forget one that is silent while a fit runs."""


@contextmanager
def writing(journal: Path, search_id: str, url: str | None) -> Iterator[BaseStorage]:
    """Gives the storage of a search to one writer at a time.

    Args:
        journal: The search's journal; made if absent.
        search_id: Name of the search.
        url: A PostgreSQL database instead of the journal.

    Raises:
        StudyError: If the journal is damaged, or the database cannot be used; the message holds no password.
    """
    if url is None:
        with exclusive(journal.with_suffix(".writer")):
            journal.with_name(journal.name + ".lock").unlink(missing_ok=True)  # Optuna's own, left by a killed process
            yield _open_journal(journal)
        return
    create_tables(url)
    with _locked(url, search_id):
        yield _open_database(url)


class _Journal(JournalFileBackend):
    """A journal that needs no symbolic links, which some drives lack, and says in one line if it cannot be written."""

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal), JournalFileOpenLock(str(journal)))
        self.journal = journal

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        try:
            super().append_logs(logs)
        except OSError as error:
            raise StudyError(f"{self.journal}: cannot be written ({error.strerror})") from error


def _open_journal(journal: Path) -> JournalStorage:
    """Returns the storage of a journal, without half of a last line that a killed process or a full disk left."""
    remedy = "delete the file to have it made again: fits that have ended are not trained again"
    if journal.exists():
        *lines, half = journal.read_bytes().split(b"\n")
        if half:
            os.truncate(journal, journal.stat().st_size - len(half))
        for number, line in enumerate(lines, 1):
            try:
                json.loads(line)
            except ValueError as error:
                raise StudyError(f"{journal}: line {number} is damaged; {remedy}") from error
    try:
        return JournalStorage(_Journal(journal))
    except (KeyError, TypeError, AssertionError) as error:  # a line is JSON, but nothing that Optuna has written
        raise StudyError(f"{journal}: is damaged; {remedy}") from error


def create_tables(url: str) -> None:
    """Makes Optuna's tables in a PostgreSQL database that has none.

    Raises:
        StudyError: If the database cannot be used; the message holds no password.
    """
    with _locked(url, "create tables"):  # Optuna's own creation fails where two processes start it at once
        _open_database(url)


def _open_database(url: str) -> RDBStorage:
    """Returns the storage in a database; a connection that broke while a fit ran for hours is made anew.

    Raises:
        StudyError: If the tables are those of another version of Optuna, or of another program.
    """
    try:
        return RDBStorage(_with_driver(url), engine_kwargs={"pool_pre_ping": True, "connect_args": KEEP_ALIVE})
    except RuntimeError as error:
        raise _unusable(url, error) from None


@contextmanager
def _locked(url: str, name: str) -> Iterator[None]:
    """Waits for an advisory lock of the database, which ends with the connection that holds it.

    What goes wrong with the database inside becomes one StudyError; of a lock that is lost the log tells.
    """
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    options = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT", "connect_args": KEEP_ALIVE}
    try:
        engine = create_engine(_with_driver(url), **options)
    except ModuleNotFoundError as error:
        raise StudyError("tune.storage: PostgreSQL needs the driver psycopg: pip install 'psycopg[binary]'") from error
    except (SQLAlchemyError, ValueError) as error:
        raise _unusable(url, error) from None
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": seed_from("search", name)})
            try:
                yield
            finally:
                _unlock(connection, url)
    except (SQLAlchemyError, StorageInternalError) as error:
        said = error.__cause__ if isinstance(error, StorageInternalError) else error  # Optuna's has no reason in it
        raise _unusable(url, said) from None


def _unlock(connection: "Connection", url: str) -> None:
    """Ends the connection that holds a lock. If it is broken, the work it guarded is done all the same."""
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        said = _reason(error, url)
        log.warning(
            "tune.storage: %s: lost the lock (%s); another job may have run the same trials", _public(url), said
        )
    connection.invalidate()


def _unusable(url: str, error: BaseException) -> StudyError:
    return StudyError(f"tune.storage: {_public(url)} cannot be used: {_reason(error, url)}")


def _with_driver(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _public(url: str) -> str:
    """Returns where a database is, without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _reason(error: BaseException, url: str) -> str:
    """Returns the first line of a database's error without the password, should it be quoted there."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    password = urlsplit(url).password
    return lines[0].replace(password, "***") if password else lines[0]
