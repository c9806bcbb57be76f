import shutil
from pathlib import Path

import pytest

from ssma.study.paths import Results
from ssma.track.store import artifact_folder, create_store, tracking_uri


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A store without runs, made once; the path has a space."""
    results = Results(tmp_path_factory.mktemp("empty store") / "made")
    create_store(tracking_uri(results, None), artifact_folder(results), "made")
    return results


@pytest.fixture
def results(empty: Results, tmp_path: Path) -> Results:
    """A fresh copy of the empty store."""
    shutil.copytree(empty.root, tmp_path / "made")
    return Results(tmp_path / "made")
