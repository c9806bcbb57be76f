from ssma.report import kept
from ssma.report.html import data_cards
from ssma.study.paths import Results
from ssma.study.records import write_record

CARD = {
    "level": "graph", "task": "regression", "metric": "mae", "direction": "minimize", "num_graphs": 12_000,
    "nodes_per_graph": {"mean": 23.16, "min": 9, "max": 37}, "num_edges": 597_970, "in_degree": {"mean": 2.15, "max": 4},
    "features": "atom type", "num_outputs": 1, "data_hash": "0123456789abcdef", "notes": ["variant: the 12k subset"],
}  # fmt: skip
SPLIT = {"train": [0], "validation": [1], "test": [2], "hash": "0"}


def test_the_page_says_how_each_data_set_was_split(tmp_path):
    results = Results(tmp_path)
    splits = {
        "official": {"scheme": "official", "items": "graphs", "splits": []},
        "folds": {"scheme": "shuffle", "items": "graphs", "folds": 10, "seed": 0, "splits": []},
        "file": {"scheme": "file", "items": "graphs", "content": "0123", "splits": [SPLIT, SPLIT]},
    }
    for label, record in splits.items():
        write_record(results.data(label) / "card.json", CARD)
        write_record(results.data(label) / "splits.json", record)
    plan = {"datasets": {label: {"id": label} for label in [*splits, "later"]}, "arms": []}
    table = data_cards(results, plan)
    column = table.columns.index("splits")
    shown = {row[0].text: row[column].text for row in table.rows}
    assert shown == {
        "official": "official split of graphs",
        "folds": "10 folds of graphs, shuffle, seed 0",
        "file": "2 splits of graphs, from a file",
        "later": "",
    }
    assert table.notes == [f"{label}: variant: the 12k subset." for label in splits]


def test_large_graphs_have_all_their_digits(tmp_path):
    results, nodes = Results(tmp_path), 2_449_029
    sizes = {
        "nodes_per_graph": {"mean": float(nodes), "min": nodes, "max": nodes},
        "in_degree": {"mean": 50.5, "max": 1_234_567},
    }
    write_record(results.data("products") / "card.json", CARD | sizes)
    (row,) = data_cards(results, {"datasets": {"products": {"id": "products"}}, "arms": []}).rows
    assert [cell.text for cell in row][4] == "2449029.0 (2449029–2449029)" and row[6].text == "50.50, 1234567"


def test_the_page_names_layers_that_see_no_edge_features(tmp_path):
    results = Results(tmp_path)
    labels = {"with": {"kind": "continuous", "width": 2}, "without": None}
    for label, edge_attr in labels.items():
        write_record(results.data(label) / "card.json", CARD | {"edge_attr": edge_attr, "notes": []})
    arms = [{"dataset": label, "layer": layer} for label in labels for layer in ("gcn", "gine", "gin", "gcn")]
    table = data_cards(results, {"datasets": {label: {"id": label} for label in labels}, "arms": arms})
    assert table.notes == ["with: its edge features are not used in gcn, gin."]


def test_the_ratio_of_a_split_is_that_of_its_test_to_its_training_items(study):
    assert kept.test_train_ratio(study, {"id": "MUTAG-1", "use": 1}) == 2 / 4
    assert kept.test_train_ratio(study, {"id": "ZINC-1", "use": 1}) is None
