rule store:
    output:
        touch(f"{RESULTS}/mlflow/created"),
    log:
        f"{RESULTS}/logs/store.log",
    conda:
        "../../environment.yml"
    params:
        plan=PLAN_FILE,
    shell:
        "python -P -m ssma store {params.plan:q} > {log:q} 2>&1"
