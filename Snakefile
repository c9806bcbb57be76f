# A study given with --configfile replaces the default one; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: f"{workflow.basedir}/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/arms.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.report.output,
        FRAME,
        expand(rules.evaluate.output, arm=ARMS),
        rules.theory.input,


onstart:
    begin(Results(Path(RESULTS)), PLAN)


# A report of what there is, failed and missing cells marked. Without the frame the next run makes it anew.
onerror:
    shell("rm -f {FRAME}; python -P -m ssma report {PLAN_FILE} --out {REPORT}")
    shell("python -P -m ssma status {PLAN_FILE} --out {REPORT}")


onsuccess:
    shell("python -P -m ssma status {PLAN_FILE} --out {REPORT}")
