rule plan:
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/plan.log",
    conda:
        "../../environment.yml"
    params:
        study=json.dumps(PLAN["config"]),
    shell:
        "python -P -m ssma plan --json {params.study:q} --write {output:q} > {log:q} 2>&1"


rule store:
    input:
        ancient(rules.plan.output),
    output:
        touch(f"{RESULTS}/mlflow/created"),
    log:
        f"{RESULTS}/logs/store.log",
    conda:
        "../../environment.yml"
    shell:
        "python -P -m ssma store {input:q} > {log:q} 2>&1"
