"""What an arm's run says when its job dies."""

import threading

import pytest
from made_records import make_plan, make_trial

from ssma.errors import STOPPED
from ssma.job import Job
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
def test_a_job_that_dies_closes_its_arm(results, death, state, reason):
    plan = make_plan(["one"])
    job = Job(results, plan, plan["arms"][0], "d", None, None)
    with pytest.raises(type(death)), job.watching(1):
        raise death
    client = make_client(tracking_uri(results, None))
    (run,) = client.search_runs([client.get_experiment_by_name("made").experiment_id])
    assert (run.info.status, run.data.tags["ssma.reason"]) == (state, reason)


def test_a_second_job_of_an_arm_waits_for_one_that_a_killed_snakemake_left(results):
    plan = make_plan(["one"])
    first, second = (Job(results, plan, plan["arms"][0], "d", None, None) for _ in range(2))
    entered = []

    def again():
        with second.watching(1) as watcher:
            entered.append(watcher)
            watcher.trial(make_trial(0, []), [])

    with first.watching(1) as watcher:
        thread = threading.Thread(target=again, daemon=True)
        thread.start()
        thread.join(timeout=1)
        assert not entered
        watcher.trial(make_trial(0, []), [])
    thread.join(timeout=60)
    assert entered and not thread.is_alive()
    client = make_client(tracking_uri(results, None))
    runs = client.search_runs([client.get_experiment_by_name("made").experiment_id])
    assert sorted(run.info.run_name for run in runs) == sorted(["trial 0", plan["arms"][0]["label"]])
