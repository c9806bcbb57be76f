"""What Snakemake notes in a working directory: what it made files for, and which files a run has locked."""

import os
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Notes:
    """Notes in files, or in a database, where a run is started with ``--persistence-backend db``.

    Args:
        folder: The ``.snakemake`` folder.
        database: SQLAlchemy's address of the database; None where notes are files.
    """

    folder: Path
    database: str | None = None

    @classmethod
    def of(cls, settings: Any) -> "Notes":
        """Returns the notes of a run in the working directory.

        Args:
            settings: Snakemake's workflow settings, which name no such thing in older versions.
        """
        folder = Path(".snakemake")
        if getattr(getattr(settings, "persistence_backend", None), "name", "FILE") == "FILE":
            return cls(folder)
        return cls(folder, settings.persistence_backend_db_url or f"sqlite:///{folder.absolute() / 'metadata.db'}")

    def has(self, file: Path) -> bool:
        """Says whether it is noted what a file was made for."""
        if self.database:
            made = "SELECT 1 FROM snakemake_metadata WHERE namespace = :folder AND target = :file"
            return self._ask("snakemake_metadata", f"{made} AND record_format_version > 0", file=str(file))
        name, most = urlsafe_b64encode(str(file).encode()).decode(), os.pathconf(self.folder, "PC_NAME_MAX") - 1
        *folders, last = (name[start : start + most] for start in range(0, len(name), most))
        return self.folder.joinpath("metadata", *(f"@{part}" for part in folders), last).exists()

    def unlock(self, study: str) -> None:
        """Removes the locks on the files of a study."""
        if self.database:
            files = {"results": f"results/{study}/", "reports": f"reports/{study}/"}
            dead = "DELETE FROM snakemake_locks WHERE namespace = :folder AND substr(file_path, 1, :length) IN "
            self._ask("snakemake_locks", f"{dead} (:results, :reports)", length=len(files["results"]), **files)
            return
        for lock in (self.folder / "locks").glob("*.lock"):
            if study in _locked_studies(lock):
                lock.unlink()

    def _ask(self, table: str, query: str, **values: Any) -> bool:
        """Says whether a query of the database, in which the folder is known by its whole path, has found something."""
        from sqlalchemy import create_engine, inspect, text

        with create_engine(self.database).begin() as connection:
            if not inspect(connection).has_table(table):
                return False
            found = connection.execute(text(query), {"folder": str(self.folder.absolute()), **values})
            return found.returns_rows and found.first() is not None


def _locked_studies(lock: Path) -> set[str]:
    """Returns whose files a lock names: results/STUDY/... and reports/STUDY/..., a line each."""
    try:
        lines = lock.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:  # the run of another study has just ended
        return set()
    return {parts[1] for line in lines if len(parts := line.split("/")) > 1}
