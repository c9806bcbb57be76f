import os
import sys
from pathlib import Path

from snakemake.logging import logger

sys.path.insert(0, str(workflow.basedir))

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.cost import describe, plan_cost
from ssma.study.ids import digest
from ssma.study.jobs import free_dead_locks, job_environment
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import write_record

# A study given with --configfile replaces the default one; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: f"{workflow.basedir}/config.yaml"


try:
    PLAN = make_plan(parse_study(config))
except StudyError as error:
    raise WorkflowError(str(error))

RESULTS, REPORT = f"results/{PLAN['study']}", f"reports/{PLAN['study']}"
DATASETS = {dataset["id"]: label for label, dataset in PLAN["datasets"].items()}
PLAN_FILE = f"{RESULTS}/plan.json"  # written before the first job: what it is in full, every id already holds in parts
ARMS = {arm["id"]: PLAN["datasets"][arm["dataset"]]["id"] for arm in PLAN["arms"]}
GPUS = 0 if PLAN["config"]["device"] == "cpu" else 1

os.environ.update(job_environment(Path(workflow.basedir)))

if workflow.is_main_process:
    free_dead_locks(Path(".snakemake"))
    logger.info(describe(plan_cost(PLAN, Results(Path(RESULTS))), workflow.cores))


include: "workflow/rules/data.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/arms.smk"
include: "workflow/rules/report.smk"


wildcard_constraints:
    arm="[A-Za-z0-9.-]+",
    dataset="[A-Za-z0-9.-]+",


rule all:
    default_target: True
    input:
        f"{REPORT}/index.html",
        expand(rules.evaluate.output, arm=ARMS),


onstart:
    write_record(Path(PLAN_FILE), PLAN)


# A report of what there is, failed and missing cells marked; `all` asks for every arm again next time.
onerror:
    shell("python -P -m ssma collect {PLAN_FILE}")
    shell("python -P -m ssma report {PLAN_FILE} --out {REPORT}")
