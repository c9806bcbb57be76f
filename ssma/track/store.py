"""The MLflow store of a study: where it lies, how it is made, and how it fails."""

import errno
import fcntl
import logging
import os
import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ssma.errors import StudyError
from ssma.study.paths import Results

if TYPE_CHECKING:
    from mlflow import MlflowClient

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # its errors reach the user through StudyError, in one line
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",  # twice this is what a dead server costs a training
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a server that is down for an hour may say so: wait an hour
}
"""What MLflow reads when it is imported; a variable that the user has set stays as it is."""
NOT_READ = ("MLFLOW_ACTIVE_MODEL_ID", "_MLFLOW_ACTIVE_MODEL_ID")
"""Of a user's other work: even MLflow's client would log all metrics to this model too, or refuse them without it."""

OF_A_STORE = ("mlflow", "sqlalchemy", "sqlite3", "alembic")
"""Whose errors may be of the file of a store."""

DELETED = "Current state is deleted"
"""What MLflow says of a run or an experiment that was deleted while a job logs to it."""


def tracking_uri(results: Results, configured: str | None) -> str:
    """Returns the address of the store: the configured one, else SQLite in ``results/<study>/mlflow``.

    The address is made anew from the results folder each time, so the folder can be moved. A relative path of a
    configured SQLite store starts in the folder of ``results``, where the workflow was started, and not where a command
    is called: it would make an empty store there. ``~`` is the home folder. SQLite's driver may be named: it is the
    one that MLflow takes without it.
    """
    configured = (configured or "").replace("sqlite+pysqlite:", "sqlite:", 1)
    if configured.startswith("sqlite:///~/"):
        return configured.replace("~", str(Path.home()), 1)
    relative = re.match("sqlite:///(?!/)", configured)
    if configured and not relative:
        return configured
    folder = results.root.absolute().parents[1] if relative else results.store.absolute()
    if "?" in str(folder):
        raise StudyError(f"{folder}: SQLite addresses cannot hold '?'; rename the folder or set track.uri")
    return f"sqlite:///{folder}/{configured.removeprefix('sqlite:///') if relative else 'mlflow.db'}"


def artifact_folder(results: Results) -> Path:
    """Returns the folder of the artifacts, beside the store (a tracking server keeps them in its own place).

    MLflow is given its URI: in a plain path it would read ``%20`` as a space, and write elsewhere.
    """
    return results.store.absolute() / "artifacts"


def make_client(uri: str, artifacts: Path | None = None) -> "MlflowClient":
    """Imports MLflow, quiet, without telemetry and with short timeouts, and returns a client of ``uri``.

    Args:
        uri: The address of the store.
        artifacts: Where those of a SQLite store lie that is yet to be made. MLflow's client would put the working
            directory into the text of a query, which quotes in it break; a URI has none.
    """
    _set_environment(uri)
    from mlflow import MlflowClient

    if uri.startswith("sqlite:"):
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        if not event.contains(Engine, "connect", _commit_at_once):
            event.listen(Engine, "connect", _commit_at_once)
        if artifacts:
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            SqlAlchemyStore(uri, artifacts.as_uri())
    return MlflowClient(tracking_uri=uri)


def _commit_at_once(connection: Any, _: Any) -> None:
    """Lets commits to a SQLite store in WAL mode not wait for the disk; MLflow makes eight of them for a run.

    A killed process loses none, and the file stays whole. What a power cut may take `ssma track` fills in again.
    """
    if isinstance(connection, sqlite3.Connection) and ("wal",) in connection.execute("PRAGMA journal_mode"):
        connection.execute("PRAGMA synchronous=NORMAL")


def create_store(uri: str, artifacts: Path, study: str) -> str:
    """Makes schema and experiment of a study where they are missing; returns the id of the experiment.

    It is meant for one job before the fan-out, but many processes may call it at once, and again: a lock
    file beside a SQLite store keeps them apart (MLflow's own first opening is a race). An experiment that
    was deleted in the UI is restored. A SQLite store whose folder was moved gets its new artifact paths; one
    whose first making was cut short, by a kill or a full disk, is made anew if nothing was logged in it yet.

    Raises:
        StudyError: If the store cannot be reached or used.
    """
    with mlflow_errors(uri):
        if not uri.startswith("sqlite:"):
            _check_database_server(uri)
            return _experiment(make_client(uri), None if urlsplit(uri).scheme.startswith("http") else artifacts, study)
        file = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        if file.is_dir():
            raise StudyError(f"MLflow store {uri}: is a folder; name a file in it, such as {uri.rstrip('/')}/mlflow.db")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.with_name(f"{file.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            unfinished = file.with_name(f"{file.name}.unfinished")
            if unfinished.exists() and not _has_runs(file):
                for part in ("", "-wal", "-shm"):
                    file.with_name(f"{file.name}{part}").unlink(missing_ok=True)
            if not file.exists():
                unfinished.touch()
                file.touch()  # SQLite would let a group only read, whatever the umask
            with closing(sqlite3.connect(file)) as database:
                # Twice the writes per second, and readers never wait. Also the first look at a broken file:
                # MLflow would try for 100 seconds to open it.
                database.execute("PRAGMA journal_mode=WAL")
            client = make_client(uri, artifacts if unfinished.exists() else None)
            experiment = _experiment(client, artifacts, study)
            _relocate(file, experiment, artifacts)
            unfinished.unlink(missing_ok=True)
        return experiment


def _has_runs(file: Path) -> bool:
    """Says whether something was logged in a store, as by a user's other work after a study did not end making it."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is not None
    return False


@contextmanager
def mlflow_errors(uri: str) -> Iterator[None]:
    """Turns every error of MLflow, of its store and of what these call into one StudyError of one line.

    Their classes have nothing in common: MLflow has its own, and so have databases, the migrations of their tables, and
    the clouds that a server keeps artifacts in.
    """
    try:
        _set_environment(uri)
        import mlflow.exceptions  # noqa: F401
    except (ImportError, RuntimeError) as error:  # the latter where a container's user has no home folder
        raise StudyError(f"MLflow cannot be imported ({error}); install it, or set track.enabled: false") from error
    try:
        yield
    except StudyError:
        raise
    except Exception as error:
        remedy = "set track.uri, or track.enabled: false"
        if uri.startswith("sqlite:") and type(error).__module__.partition(".")[0] in OF_A_STORE:
            file = uri.removeprefix("sqlite:///")
            remedy = f"delete {file}, if it has runs of this study alone, to have it made again, or {remedy}"
        if getattr(error, "errno", None) in (errno.EROFS, errno.EACCES) or "readonly database" in str(error):
            remedy = "copy the results to where you may write"
        if uri.startswith("http") and getattr(error, "filename", None):  # which is on this machine
            remedy = "the server names this folder for artifacts: start it so that it takes them (mlflow server with "
            remedy += "--artifacts-destination, not --default-artifact-root) and rename the experiment there, which "
            remedy += "keeps the folder, or set track.enabled: false"
        if "error code 401" in str(error):
            remedy = "put your user and password into the variables MLFLOW_TRACKING_USERNAME and "
            remedy += "MLFLOW_TRACKING_PASSWORD, or a token into MLFLOW_TRACKING_TOKEN"
        if "locate revision" in str(error):
            remedy = "it is a newer MLflow's, or another program's, such as Optuna: set track.uri to another one"
        if "out-of-date database schema" in str(error):
            remedy = "its tables are those of another MLflow: of an older one, make a copy and run `mlflow db upgrade "
            remedy += f"{_without_password(uri)}`; of a newer one, install that"
        if DELETED in str(error):
            remedy = "leave the runs of a job alone until it has ended"
        if isinstance(error, UnicodeError):
            remedy = "set a locale that can name the folder, such as LC_ALL=C.UTF-8"
        if "database is locked" in str(error):  # for longer than any write of ours: nothing is wrong with the file
            remedy = "close the program that keeps it locked"
        if "disk is full" in str(error) or "disk I/O error" in str(error):
            remedy = "make room on its disk, if that is full"
        text = repr(error) if isinstance(error, LookupError) else str(error)  # or a key stands alone
        said = " ".join(text.split())[:300] or type(error).__name__
        raise StudyError(f"MLflow store {_without_password(uri)} cannot be used ({said}); {remedy}") from error


def _set_environment(uri: str) -> None:
    for name in (*NOT_READ, *(["MLFLOW_ENABLE_WORKSPACES"] if uri.startswith("sqlite:") else [])):
        os.environ.pop(name, None)  # workspaces are those of a server; a study's own store has none
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # it warns at each retry


def _without_password(uri: str) -> str:
    password = urlsplit(uri).password
    return uri.replace(f":{password}@", ":***@") if password else uri


def _check_database_server(uri: str) -> None:
    """Fails at once at a closed port, where MLflow would try for 100 seconds to open the database."""
    address = urlsplit(uri)
    if not address.scheme.startswith("http") and address.hostname and address.port:
        socket.create_connection((address.hostname, address.port), timeout=3).close()


def _experiment(client: "MlflowClient", artifacts: Path | None, study: str) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(study)
    if found is None:
        try:
            return client.create_experiment(study, artifact_location=artifacts.as_uri() if artifacts else None)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(study)  # another process was faster
    if not found.experiment_id:
        address = _without_password(client.tracking_uri)
        raise StudyError(f"track.uri: what answers at {address} is no MLflow server; check host, port and path")
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _relocate(file: Path, experiment: str, artifacts: Path) -> None:
    """MLflow stores absolute artifact paths: writes the present ones into a store that was moved.

    In a store that is kept elsewhere, the artifacts of an experiment may be those of the user's other work, or of other
    results with this study's name: they stay where they are.
    """
    from mlflow.utils.file_utils import local_file_uri_to_path

    with closing(sqlite3.connect(file)) as database, database:
        query = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
        (old,) = database.execute(query, [experiment]).fetchone()
        new, of_a_study = artifacts.as_uri(), old.startswith("file:") and old.endswith("/mlflow/artifacts")
        gone = of_a_study and not Path(local_file_uri_to_path(old)).parents[1].exists()  # artifacts may be yet to come
        if old != new and (file.parent == artifacts.parent or gone):
            moved = "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE experiment_id = ?"
            database.execute(moved, [new, len(old) + 1, experiment])
            place = "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?"
            database.execute(place, [new, experiment])
