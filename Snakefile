# A study given with --configfile replaces the default one; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: f"{workflow.basedir}/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/arms.smk"
include: "workflow/rules/report.smk"


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
