"""The MLflow UI on the store of a study."""

import logging
import os
import sys

LOG = logging.getLogger("ssma.track")
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def open_ui(uri: str, port: int) -> None:
    """Becomes MLflow's UI on a store. A tracking server has a UI of its own, whose address is told instead.

    Args:
        uri: The store.
        port: Where the UI answers.
    """
    if uri.startswith("http"):
        print(f"MLflow UI: {uri} (the study's tracking server)")
        return
    arguments = ["ui", "--backend-store-uri", uri, "--workers", "1", "--port", str(port)]
    LOG.info("MLflow UI: http://localhost:%d", port)
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", *arguments], os.environ | QUIET)
