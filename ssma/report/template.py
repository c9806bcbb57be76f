"""The page's HTML (Jinja) and its style."""

STYLE = """
:root { --ink: #1f2933; --soft: #5b6773; --line: #dfe4e8; --warm: #fff6e0; --link: #0b5cad; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2.5rem 1.5rem 5rem; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .8rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p, li, figcaption, summary { max-width: 48rem; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.soft, figcaption, caption { color: var(--soft); font-size: .9rem; }
nav a { margin-right: 1.2rem; white-space: nowrap; }
.scroll { overflow-x: auto; margin: 1rem 0 .4rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .6rem; max-width: 60rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; white-space: nowrap; vertical-align: top; }
.text td { white-space: normal; min-width: 5rem; max-width: 20rem; }
thead th { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink); }
tbody tr:last-child td { border-bottom: 2px solid var(--ink); }
tr.group td { border-top: 1px solid var(--line); }
tr:target { background: var(--warm); }
td a { color: inherit; }
.failed { color: #a33; }
figure { margin: 1.6rem 0; } figure svg { display: block; width: 100%; height: auto; }
.warnings { background: var(--warm); border-left: 4px solid #e0a100; padding: .8rem 1.2rem; margin: 1.5rem 0; }
.warnings p, .warnings ul { margin: .2rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; font-size: .92rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font: .85em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: #f5f7f9; padding: 1rem; overflow-x: auto; }
@media print { .scroll { overflow: visible; } nav { display: none; } th, td { white-space: normal; } }
"""

ARM_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>pre { white-space: pre-wrap; overflow-wrap: anywhere; }</style></head>
<body>
<p><a href="../index.html">Back to the report</a></p>
<pre>{{ text }}</pre>
</body>
</html>
"""

PAGE = (
    """{% macro show(table, anchors=false) %}
<div class="scroll" id="{{ table_id(table.name) }}" tabindex="0"><table{% if table.sentences %} class="text"{% endif %}>
<caption>{{ table.caption }}</caption>
<thead><tr>{% for column in table.columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr{% if table.starts_group(loop.index0) %} class="group"{% endif %}
{%- if anchors %} id="{{ row[0].text }}:arm"{% endif %}>
{% for cell in row %}
<td{% if cell.text == "missing" or cell.text.startswith("failed") %} class="failed"{% endif %}>
{%- if cell.arm and not anchors %}<a href="#{{ cell.arm }}:arm" title="arm {{ cell.arm }}">{% endif %}
{%- if anchors and loop.first and arm_pages %}
<a href="arms/{{ cell.text }}.html" title="what stands behind it">{% endif %}
{%- if cell.link %}<a href="#{{ cell.link }}">{% endif %}
{%- if cell.bold %}<b>{{ cell.text }}</b>{% else %}{{ cell.text }}{% endif %}
{%- if cell.link or (cell.arm and not anchors) or (anchors and loop.first and arm_pages) %}</a>{% endif %}
{%- if cell.detail %}<br><span class="soft">{{ cell.detail }}</span>{% endif %}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody></table></div>
{% if table.notes %}
<div class="warnings">{% for note in table.notes %}<p>{{ note }}</p>{% endfor %}</div>
{% endif %}
{% for note in table.footnotes %}<p class="soft">{{ note }}</p>{% endfor %}
{% endmacro %}
{% macro files(table) %}
{% for kind in ["csv", "tex", "md"] %}<a href="tables/{{ table.name }}.{{ kind }}">{{ kind }}</a> {% endfor %}
{% endmacro %}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ plan.title }}</title>
<style>"""
    + STYLE
    + """</style>
</head>
<body>
<h1>{{ plan.title }}</h1>
<p class="soft">Study {{ plan.study }}. {{ counts }}</p>
<nav>{% for section in sections %}<a href="#{{ section.name }}">{{ section.title }}</a> {% endfor %}
<a href="#beside-the-paper">Beside the paper</a> <a href="#claims">Claims</a>
{% if theory %}<a href="#theory">Theory</a> {% endif %}
<a href="#all-arms">All arms</a> <a href="#data">Data</a> <a href="#provenance">Provenance</a></nav>
{% for section in sections if section.words %}
<p><a href="#{{ section.name }}">{{ section.title }}</a>: {{ section.words.summary }}</p>
{% endfor %}
{% if warnings %}
<div class="warnings"><p><b>Read this first</b></p>
<ul>{% for warning in warnings %}<li>{{ warning }}</li>{% endfor %}</ul></div>
{% endif %}
{% for section in sections %}
<h2 id="{{ section.name }}">{{ section.title }}</h2>
{% if section.words %}<p><b>{{ section.words.summary }}</b></p>{% endif %}

{% for figure in section.figures %}
<figure>{{ figure.svg | safe }}
<figcaption>{{ figure.caption }}
{% for kind in ["pdf", "png", "csv"] %}<a href="figures/{{ figure.name }}.{{ kind }}">{{ kind }}</a> {% endfor %}
</figcaption></figure>
{% endfor %}
{% if section.words %}
{% for sentence in section.words.overall %}<p>{{ sentence }}</p>{% endfor %}
{% if section.words.details %}
<details{% if section.words.details | length <= 12 %} open{% endif %}><summary>Place by place:
difference [95% interval, not adjusted], p adjusted by Holm</summary>
<ul>{% for sentence in section.words.details %}<li>{{ sentence }}</li>{% endfor %}</ul></details>
{% endif %}
{% endif %}
{% for table in section.tables %}
{{ show(table) }}
<p class="soft">Table: {{ files(table) }}</p>
{% endfor %}
{% endfor %}
<h2 id="beside-the-paper">Beside the paper</h2>
{% for table in papers.tables %}
{{ show(table) }}
<p class="soft">Table: {{ files(table) }}</p>
{% endfor %}
{% if papers.not_run %}
<p>Tables of the paper of which nothing was run: {{ papers.not_run | join(", ") }}.</p>
{% endif %}
<h2 id="claims">Claims of the paper</h2>
{% if papers.claims.printed[0] %}
{% for table in [papers.claims, papers.pairs] %}
{{ show(table) }}
<p class="soft">Table: {{ files(table) }}</p>
{% endfor %}
{% else %}
<p>No arm of this study bears on a claim of the paper. All claims: {{ files(papers.claims) }}</p>
{% endif %}
{% if theory %}
<h2 id="theory">Theory</h2>
{% endif %}
{% for shown in theory %}
<h3 id="theory-{{ shown.name }}">{{ shown.title }}</h3>
<p{% if not shown.svg %} class="failed"{% endif %}>{{ shown.words }}</p>
{% if shown.svg %}
<figure>{{ shown.svg | safe }}
<figcaption>{{ shown.claim }}
{% for kind in ["pdf", "png", "csv"] %}<a href="figures/theory-{{ shown.name }}.{{ kind }}">{{ kind }}</a> {% endfor %}
</figcaption></figure>
{% endif %}
{% endfor %}
<h2 id="all-arms">All arms</h2>
{{ show(arms, anchors=true) }}
<p class="soft">Table: {{ files(arms) }}</p>
<h2 id="data">Data</h2>
{{ show(data) }}
<h2 id="provenance">Provenance</h2>
<dl>{% for title, text in provenance %}<dt>{{ title }}</dt><dd>{{ text }}</dd>{% endfor %}</dl>
<h3>From a number to its runs</h3>
<p>A number in a table links to its arm above, and the arm to a page with its settings, splits, seeds, fits, versions
and the command that trains it again (<code>ssma show</code> prints the same; with a fit's id it has the history). That
of a predictor without a graph links to the data sets: it is from <code>sanity.json</code> in the folder of its own. {%
if plan.config.track.enabled %}In
MLflow an arm's runs are found by the search <code>tags."ssma.arm" = '{{ example }}'</code>. {%
endif %}In the results folder the
arm is a folder:</p>
<ol>
<li><code>arms/{{ example }}/chosen.json</code>: the trials, their validation metrics, and what was chosen;</li>
<li><code>arms/{{ example }}/evaluation.json</code>: the fits behind the number, with their ids;</li>
<li><code>fits/&lt;first two characters&gt;/&lt;fit id&gt;.json</code>: one training, with settings, seed, split,
history, versions and git commit.</li>
</ol>
<p>The same, a row per fit: <a href="records.parquet">records.parquet</a> (columns <code>arm</code>, <code>fit</code>,
<code>seed</code>, <code>split</code>, <code>code</code>, ...).</p>
<details><summary>The study file, with defaults where it says nothing{% if plan.config.protocol %}; protocol
{{ plan.config.protocol }} replaces these defaults, and an arm's page has what it was run with{% endif %}</summary>
<pre>{{ config }}</pre></details>
</body>
</html>
"""
)
