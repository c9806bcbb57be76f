rule tune:
    input:
        plan=ancient(rules.plan.output),
        store=ancient(rules.store.output),
        card=lambda wildcards: f"{RESULTS}/data/{ARMS[wildcards.arm]}/card.json",
    output:
        touch(f"{RESULTS}/arms/{{arm}}/tuned"),
    log:
        f"{RESULTS}/logs/tune/{{arm}}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        gpu=GPUS,
    shell:
        "python -P -m ssma tune {input.plan:q} {wildcards.arm} --threads {threads} > {log:q} 2>&1"


rule evaluate:
    input:
        plan=ancient(rules.plan.output),
        tuned=rules.tune.output,
    output:
        touch(f"{RESULTS}/arms/{{arm}}/evaluated"),
    log:
        f"{RESULTS}/logs/evaluate/{{arm}}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        gpu=GPUS,
    shell:
        "python -P -m ssma evaluate {input.plan:q} {wildcards.arm} --threads {threads} > {log:q} 2>&1"
