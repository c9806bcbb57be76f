rule tune:
    input:
        store=ancient(rules.store.output),
        card=lambda wildcards: f"{RESULTS}/data/{ARMS[wildcards.arm]}/card.json",
        data=ancient(prepared),
    output:
        touch(f"{RESULTS}/arms/{{arm}}/tuned"),
    log:
        f"{RESULTS}/logs/tune/{{arm}}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        gpu=GPUS,
    params:
        plan=PLAN_FILE,
    shell:
        "python -P -m ssma tune {params.plan:q} {wildcards.arm} --threads {threads} > {log:q} 2>&1"


rule evaluate:
    input:
        store=ancient(rules.store.output),
        card=lambda wildcards: f"{RESULTS}/data/{ARMS[wildcards.arm]}/card.json",
        data=ancient(prepared),
        tuned=lambda wildcards: rules.tune.output if wildcards.arm in SEARCHED else [],
    output:
        touch(f"{RESULTS}/arms/{{arm}}/evaluated"),
    log:
        f"{RESULTS}/logs/evaluate/{{arm}}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        gpu=GPUS,
    params:
        plan=PLAN_FILE,
    shell:
        "python -P -m ssma evaluate {params.plan:q} {wildcards.arm} --threads {threads} > {log:q} 2>&1"
