"""The MLflow UI on the store of a study."""

import logging
import os
import socket
import sys
from typing import Any

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.track.store import artifact_folder, create_store, tracking_uri

log = logging.getLogger("ssma.track")

OF_A_SERVER = (
    "MLFLOW_ARTIFACTS_ONLY",
    "MLFLOW_EXPOSE_PROMETHEUS",
    "MLFLOW_GUNICORN_OPTS",
    "MLFLOW_HOST",
    "MLFLOW_READ_REPLICA_BACKEND_STORE_URI",
    "MLFLOW_REGISTRY_STORE_URI",
    "MLFLOW_SERVER_ALLOWED_HOSTS",
    "MLFLOW_STATIC_PREFIX",
    "MLFLOW_TRACE_ARCHIVAL_CONFIG",
    "MLFLOW_UVICORN_OPTS",
    "MLFLOW_WORKSPACE",
)
"""Options of a server that is run here for other work: with one of them the UI ends, or answers elsewhere or to
nobody here. So it is with those of uvicorn, which MLflow starts and which reads a variable for each of its own."""


def open_ui(results: Results, plan: dict[str, Any], port: int) -> None:
    """Becomes MLflow's UI on a study's store. A tracking server has a UI of its own, whose address is told instead.

    Args:
        results: The study's results; if they were moved, the store learns where its artifacts are now.

    Raises:
        StudyError: If there is no such port or it is taken, or the store cannot be used. MLflow writes even where it
            only shows.
    """
    if not 0 < port < 2**16:
        raise StudyError(f"--port: got {port}, expected a number from 1 to 65535")
    uri = tracking_uri(results, plan["config"]["track"]["uri"])
    if uri.startswith("http"):
        print(f"MLflow UI: {uri} (the study's tracking server)")
        return
    _check_free(port)
    create_store(uri, artifact_folder(results), plan["study"])
    arguments = ["ui", "--backend-store-uri", uri, "--workers", "1", "--port", str(port)]
    log.info("MLflow UI: http://localhost:%d", port)
    others = {name for name in os.environ if name in OF_A_SERVER or name.startswith("UVICORN_")}
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", *arguments], environment)


def _check_free(port: int) -> None:
    """Refuses a port that is taken: MLflow tells it in its log, after seconds, and something else answers there."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise StudyError(f"--port: {port} cannot be used ({os.strerror(error.errno)}); give another one") from error
