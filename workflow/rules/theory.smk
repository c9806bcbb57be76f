rule experiment:
    output:
        table=f"{RESULTS}/theory/{{experiment}}.csv",
        png=f"{RESULTS}/theory/{{experiment}}.png",
        pdf=f"{RESULTS}/theory/{{experiment}}.pdf",
    log:
        f"{RESULTS}/logs/theory/{{experiment}}.log",
    conda:
        "../../environment.yml"
    threads: 1
    params:
        plan=PLAN_FILE,
        name=lambda wildcards: THEORY[wildcards.experiment],
    shell:
        "python -P -m ssma theory {params.plan:q} {params.name} --threads {threads} > {log:q} 2>&1"


rule theory:
    input:
        expand(rules.experiment.output, experiment=THEORY),
