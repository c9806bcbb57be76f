rule collect:
    input:
        expand(rules.evaluate.output, arm=ARMS),
    output:
        FRAME,
    log:
        f"{RESULTS}/logs/collect.log",
    conda:
        "../../environment.yml"
    params:
        plan=PLAN_FILE,
        content=digest(PLAN),
        code=code_fingerprint(),
    shell:
        "python -P -m ssma collect {params.plan:q} > {log:q} 2>&1"


rule report:
    input:
        rules.collect.output,
        rules.theory.input,
    output:
        page=report(
            f"{REPORT}/index.html",
            caption="../report/page.rst",
            category="Page",
            labels={"what": "the whole report"},
        ),
        arms=report(
            f"{REPORT}/tables/arms.csv",
            caption="../report/arms.rst",
            category="Arms",
            labels={"what": "every arm"},
        ),
        claims=report(
            f"{REPORT}/tables/paper/claims.csv",
            caption="../report/claims.rst",
            category="Paper",
            labels={"what": "the paper's claims"},
        ),
        selection=report(
            f"{REPORT}/tables/selection_bias.csv",
            caption="../report/selection.rst",
            category="Selection bias",
            labels={"what": "every arm under three selection rules"},
        ),
        tables=[
            report(
                f"{REPORT}/tables/{name}.csv",
                caption="../report/table.rst",
                category="Tables",
                labels={"ablation": name},
            )
            for name in PLAN["ablations"]
        ],
        figures=[
            report(
                f"{REPORT}/figures/{name}.png",
                caption="../report/figure.rst",
                category="Figures",
                labels={"ablation": name},
            )
            for name in DRAWN
        ],
        theory=[
            report(
                f"{REPORT}/figures/theory-{name}.png",
                caption="../report/theory.rst",
                category="Theory",
                labels={"experiment": name},
            )
            for name in PLAN["theory"]
        ],
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        plan=PLAN_FILE,
        out=lambda wildcards, output: os.path.dirname(output.page),
    shell:
        "python -P -m ssma report {params.plan:q} --out {params.out:q} > {log:q} 2>&1"


for name in PLAN["ablations"]:

    rule:
        name:
            name
        input:
            expand(rules.evaluate.output, arm=arms_of(PLAN, name)),
        output:
            f"{REPORT}/ablations/{name}/index.html",
        log:
            f"{RESULTS}/logs/report-{name}.log",
        conda:
            "../../environment.yml"
        params:
            plan=PLAN_FILE,
            ablation=name,
            out=lambda wildcards, output: os.path.dirname(output[0]),
            content=digest(part(PLAN, name)),
            code=code_fingerprint(),
        shell:
            "python -P -m ssma report {params.plan:q} --ablation {params.ablation:q} --out {params.out:q} > {log:q} 2>&1"
