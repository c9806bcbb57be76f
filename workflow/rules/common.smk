import sys
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import update_config

# Not `workflow.basedir`, which is that of a workflow that takes this one as a module.
PACKAGE = Path(str(workflow.current_basedir)).parents[1]
sys.path.insert(0, str(PACKAGE))

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.cost import describe, plan_cost
from ssma.study.ids import code_fingerprint, digest
from ssma.study.jobs import (
    begin,
    forget_lost,
    forget_outdated,
    free_dead_locks,
    prepare_jobs,
    runs_nothing,
)
from ssma.study.notes import Notes
from ssma.study.part import arms_of, compares, part
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.reading import from_command_line, read_study

try:
    if set("{}") & set(str(PACKAGE)):
        raise StudyError(
            f"{PACKAGE}: Snakemake takes what stands in braces for the name of a value; rename this folder"
        )
    for path in workflow.configfiles:
        read_study(Path(path))
    update_config(config, from_command_line(workflow.config_settings.config))
    PLAN = make_plan(parse_study(config))
    if workflow.is_main_process:
        dry = workflow.output_settings.dryrun or runs_nothing(sys.argv)
        results = Results(Path("results", PLAN["study"]))
        notes = Notes.of(workflow.workflow_settings)
        _, alone = free_dead_locks(notes, PLAN["study"])
        if alone:  # else a dry run would take from a run what its jobs need
            forget_lost(results, PLAN)
            forget_outdated(results, PLAN, notes, dry)
            # `onstart` is not called with --no-hooks, nor in a module of another.
            if not dry:
                begin(results, PLAN)
        cores = (
            workflow.resource_settings.cores or workflow.resource_settings.nodes or 1
        )
        logger.info(describe(plan_cost(PLAN, results), cores))
except StudyError as error:
    raise WorkflowError(str(error))


class Planned(dict):
    """A table by id. To match wildcards with all ids would take a time that grows as the square of their number."""

    def __missing__(self, key):
        raise WorkflowError(f"{key}: not in the plan; its ids are in {PLAN_FILE}")


def prepared(wildcards):
    """Returns what a fit needs of a data set beside its card. Arms that are done do not ask for it: it may have been
    deleted to have the space."""
    folder = f"{RESULTS}/data/{ARMS[wildcards.arm]}"
    return [f"{folder}/{name}" for name in ("graphs.pt", "splits.json", "sanity.json")]


RESULTS, REPORT = f"results/{PLAN['study']}", f"reports/{PLAN['study']}"
DATASETS = Planned(
    (dataset["id"], label) for label, dataset in PLAN["datasets"].items()
)
PLAN_FILE, FRAME = f"{RESULTS}/plan.json", f"{RESULTS}/records.parquet"
ARMS = Planned(
    (arm["id"], PLAN["datasets"][arm["dataset"]]["id"]) for arm in PLAN["arms"]
)
SEARCHED = {arm["id"] for arm in PLAN["arms"] if arm["space"]}
THEORY = Planned(
    (experiment["id"], name) for name, experiment in PLAN["theory"].items()
)
DRAWN = [name for name in PLAN["ablations"] if compares(PLAN, name)]
GPUS = 0 if PLAN["config"]["device"] == "cpu" else 1

shell.prefix(prepare_jobs(PACKAGE))


wildcard_constraints:
    arm="[A-Za-z0-9.-]+",
    dataset="[A-Za-z0-9.-]+",
    experiment="[a-z_]+-[0-9a-f]+",
