from typing import Any

import pytest

from ssma.data.prepare import Prepared, load, prepare


@pytest.fixture(scope="module")
def prepared(study: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The data set ``d`` of a module's plan ``study``."""
    folder = tmp_path_factory.mktemp("data")
    prepare(folder, study["datasets"]["d"], None)
    return load(folder)
