"""What an arm's run says when its job dies."""

import pytest
from made_records import make_plan

from ssma.errors import STOPPED
from ssma.job import Job
from ssma.study.paths import Results
from ssma.track.store import make_client, tracking_uri


@pytest.mark.parametrize(
    ("death", "state", "reason"),
    [
        (RuntimeError("no data"), "FAILED", "RuntimeError: no data"),
        (KeyError(STOPPED), "FAILED", "KeyError: 143"),
        (SystemExit(1), "FAILED", "SystemExit: 1"),
        (SystemExit(STOPPED), "KILLED", "SystemExit: 143"),
        (KeyboardInterrupt(), "KILLED", "KeyboardInterrupt: "),
    ],
)
def test_a_job_that_dies_closes_its_arm(tmp_path, death, state, reason):
    plan, results = make_plan(["one"]), Results(tmp_path)
    job = Job(results, plan, plan["arms"][0], "d", None, None)
    with pytest.raises(type(death)), job.watching(1):
        raise death
    client = make_client(tracking_uri(results, None))
    (run,) = client.search_runs([client.get_experiment_by_name("made").experiment_id])
    assert (run.info.status, run.data.tags["ssma.reason"]) == (state, reason)
