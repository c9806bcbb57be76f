rule prepare:
    output:
        graphs=f"{RESULTS}/data/{{dataset}}/graphs.pt",
        splits=f"{RESULTS}/data/{{dataset}}/splits.json",
        card=f"{RESULTS}/data/{{dataset}}/card.json",
        sanity=f"{RESULTS}/data/{{dataset}}/sanity.json",
    log:
        f"{RESULTS}/logs/prepare/{{dataset}}.log",
    conda:
        "../../environment.yml"
    params:
        plan=PLAN_FILE,
        label=lambda wildcards: DATASETS[wildcards.dataset],
    shell:
        "python -P -m ssma prepare {params.plan:q} {params.label:q} > {log:q} 2>&1"
