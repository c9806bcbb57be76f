import math
from collections import Counter

import pytest
import torch

from ssma import paper
from ssma.aggr import make_aggregation
from ssma.report.claim_checks import CHECKS
from ssma.report.paper_tables import improvement_terms
from ssma.study.theory import Theory

ENTRIES = {
    "results_tu_zinc": 82, "results_lrgb_ogbn": 74, "runtime_measurment": 32, "results_vap": 54,
    "results_tu_zinc_gen_agg": 60, "gps_pe_exp": 48, "learn_affine_results": 6, "results_tu_zinc_lstm": 60,
    "results_tu_zinc_max": 60, "results_tu_zinc_mean": 60, "results_tu_zinc_min": 60, "results_tu_zinc_mul": 59,
}  # fmt: skip


def test_every_entry_of_every_table_is_there():
    assert {table.name: len(paper.results(table.name)) for table in paper.tables()} == ENTRIES
    assert [table.number for table in paper.tables()] == [1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert (len(paper.improvements()), len(paper.claims())) == (59, 114)


def test_entries_are_as_printed():
    (entry,) = [
        entry
        for entry in paper.results("results_tu_zinc")
        if (entry.dataset, entry.layer, entry.aggregator) == ("ENZYMES", "gatv2", "ssma")
    ]
    assert (entry.mean, entry.std, entry.metric, entry.unit) == ("52.50", "8.43", "accuracy", "percent")
    assert paper.protocols()["ZINC"] == paper.Protocol("ZINC", 5, "runs", 30)


def test_each_entry_appears_once_per_variant_and_metric():
    for table in paper.tables():
        keys = Counter((e.dataset, e.layer, e.aggregator, e.variant, e.metric) for e in paper.results(table.name))
        assert set(keys.values()) == {1}


@pytest.mark.parametrize("line", paper.improvements(), ids=lambda line: line.claim)
def test_printed_improvements_agree_with_the_entries_as_is_said(line):
    terms = improvement_terms(line)
    mean = math.fsum(terms.values()) / len(terms)
    unit, printed = 10 ** len(line.printed.partition(".")[2]), float(line.printed)
    rounds, cut = round(mean * unit) / unit == printed, math.floor(mean * unit) / unit == printed
    expected = {"agrees": (True,), "agrees when cut instead of rounded": (False, True)}
    if line.check in expected:
        assert (rounds, cut)[: len(expected[line.check])] == expected[line.check]
    else:
        assert not rounds and not cut


def test_recomputed_improvements_are_the_known_ones():
    means = {line.claim: improvement_terms(line) for line in paper.improvements()}
    known = {"IMP-T1-ENZYMES": (7.237, 6), "IMP-T1-IMDB-BINARY": (17.708, 7), "IMP-T2-ogbn-arxiv": (8.451, 6),
             "IMP-MUL-ZINC": (78.366, 4), "IMP-GPSPE-gps_pe": (8.630, 12), "IMP-VPA-PTC_MR": (7.733, 3)}  # fmt: skip
    for claim, (mean, terms) in known.items():
        assert len(means[claim]) == terms
        assert math.fsum(means[claim].values()) / terms == pytest.approx(mean, abs=5e-4)
    kinds = Counter(line.check for line in paper.improvements())
    assert sorted(kinds.values()) == [5, 6, 16, 32]


def test_every_footnote_concerns_an_entry():
    for note in paper.footnotes():
        for table in note.tables.split():
            assert any(
                (entry.dataset, entry.aggregator) == (note.dataset, note.aggregator) and note.layer in ("", entry.layer)
                for entry in paper.results(table)
            ), note


def test_an_entry_of_two_tables_that_differ_beyond_rounding_has_a_footnote_in_both():
    notes = {
        (table, note.dataset, note.layer, note.aggregator)
        for note in paper.footnotes()
        for table in note.tables.split()
    }
    first = {
        (entry.dataset, entry.aggregator): entry
        for table in ("results_tu_zinc", "results_lrgb_ogbn")
        for entry in paper.results(table)
        if entry.layer == "gps"
    }
    odd = set()
    for entry in paper.results("gps_pe_exp"):
        if entry.layer == "gps":
            other = first[entry.dataset, entry.aggregator]
            scale = 100 if (entry.unit, other.unit) == ("percent", "fraction") else 1
            for printed, again in ((other.mean, entry.mean), (other.std, entry.std)):
                if f"{float(again) / scale:.{len(printed.partition('.')[2])}f}" != printed:
                    odd.add((entry.dataset, entry.aggregator))
                    assert {(one.table, one.dataset, "gps", one.aggregator) for one in (entry, other)} <= notes
    assert odd == {("ogbg-molhiv", "sum"), ("ogbg-molhiv", "ssma"), ("Peptides-struct", "ssma")}


def test_entries_that_may_be_of_a_larger_budget_say_so():
    told = {
        (note.layer, text): note.tables.split()
        for note in paper.footnotes()
        for text in ("400,000", "800,000", "variance")
        if note.dataset == "ZINC" and text in note.text and note.aggregator == "ssma"
    }
    assert told.keys() == {("gcn", "400,000"), ("gin", "400,000"), ("pna", "800,000"), ("pna", "variance")}
    reused = [table.name for table in paper.tables() if table.name.startswith("results_tu_zinc")]
    assert told["gcn", "400,000"] == told["gin", "400,000"] and sorted(told["gcn", "400,000"]) == sorted(reused)


def test_baselines_that_are_not_the_authors_say_in_what():
    notes = {table.name: table.note for table in paper.tables()}
    assert "inverse of f to be one is never computed" in notes["results_tu_zinc_gen_agg"]
    assert "a random one in training" in notes["results_tu_zinc_lstm"]
    assert "one LSTM reads all heads of gat and gatv2" in notes["results_tu_zinc_lstm"]
    assert "behind the padding of the batch" in notes["results_tu_zinc_lstm"]


def test_entries_that_the_paper_took_from_others_say_so():
    esan = {
        (table.name, entry.dataset)
        for table in paper.tables()
        for entry in paper.results(table.name)
        if (entry.layer, entry.aggregator) == ("esan", "sum")
    }
    told = [(note.tables, note.dataset) for note in paper.footnotes()
            if note.text.startswith("Reported by ESAN's authors") and note.layer == "esan"]  # fmt: skip
    assert sorted(told) == sorted(esan) and len(esan) == 6
    notes = {table.name: table.note for table in paper.tables()}
    assert "The entries of VPA are those that its authors report." in notes["results_vap"]


def test_what_is_not_of_the_protocol_of_vpa_s_authors_is_told():
    note = next(table.note for table in paper.tables() if table.name == "results_vap")
    assert "but not its networks: dropout stands in each block" in note and "vpa divides by another root" in note
    ptc = {(note.dataset, note.layer, note.aggregator) for note in paper.footnotes() if "names PTC_FM" in note.text}
    assert ptc == {("PTC_MR", "", "vpa"), ("PTC_MR", "", "ssma")}


def test_both_pna_entries_on_zinc_say_that_another_network_may_be_behind_them():
    told = [(note.aggregator, "four layers of width 70" in note.text) for note in paper.footnotes()
            if (note.dataset, note.layer) == ("ZINC", "pna") and "variance in place" in note.text]  # fmt: skip
    assert told == [("pna", True), ("ssma", True)]


def test_an_entry_that_may_be_the_smallest_test_error_over_epochs_says_so():
    told = {
        (note.tables, note.dataset, note.layer, note.aggregator)
        for note in paper.footnotes()
        if "smallest test MAE over all epochs" in note.text
    }
    assert told == {("gps_pe_exp", "ZINC", "gps_pe", aggregator) for aggregator in ("sum", "ssma")}


def test_a_claim_has_a_check_or_a_reason_why_not():
    for claim in paper.claims():
        assert (claim.id in CHECKS) != bool(claim.reason), claim.id
    assert {claim.id for claim in paper.claims()} >= CHECKS.keys()
    assert {line.claim for line in paper.improvements()} <= CHECKS.keys()


def test_reasons_name_theory_experiments_that_there_are():
    named = {claim.id: claim.reason.split("theory experiment ")[1].split()[0] for claim in paper.claims()
             if "theory experiment " in claim.reason}  # fmt: skip
    assert set(named.values()) == set(Theory.model_fields)
    assert (named["S3"], named["T2"], named["T16"]) == ("sum_of_gram", "mixing", "separation")


ONE_CLASS = "that gives one class to all graphs of a fold"


def entries(note):
    for table in note.tables.split():
        for entry in paper.results(table):
            of = (entry.dataset, entry.aggregator) == (note.dataset, note.aggregator)
            if of and note.layer in ("", entry.layer):
                yield entry


def test_entries_of_one_class_in_each_fold_are_those_whose_mean_forces_their_deviation():
    """The larger class has 50 + c of the 100 graphs of a fold, where these c have the sum of squares 252."""
    forced = {
        entry
        for table in paper.tables()
        for entry in paper.results(table.name)
        if (entry.dataset, entry.metric) == ("IMDB-BINARY", "accuracy") and table.name != "results_vap"
        if (spread := 252 - 10 * (float(entry.mean) - 50) ** 2) >= 0 and f"{math.sqrt(spread / 9):.2f}" == entry.std
    }
    told = [(note, entry) for note in paper.footnotes() if ONE_CLASS in note.text for entry in entries(note)]
    assert {entry for _, entry in told} == forced and len(told) == len(forced) == 7


def test_equal_features_stay_equal_under_the_aggregations_of_which_a_footnote_says_so():
    told = {note.aggregator for note in paper.footnotes() if "stay equal under this aggregation" in note.text}
    message, index = torch.tensor([[0.5, -2.0]]), torch.tensor([0, 1, 1, 2, 2, 2])
    found = {name: make_aggregation(name, 2)(message.expand(6, 2), index) for name in ("mean", "min", "max", "mul")}
    assert told == {name for name, values in found.items() if values.unique(dim=0).size(0) == 1}


def test_footnotes_compare_a_deviation_with_the_gain_as_the_entries_do():
    told = {}
    for note in paper.footnotes():
        if note.text.startswith("The deviation is") and "gain" in note.text:
            (entry,) = entries(note)
            (other,) = (
                base
                for base in paper.results(entry.table)
                if (base.dataset, base.layer) == (entry.dataset, entry.layer) and base.aggregator != "ssma"
            )
            gain = round(float(other.mean) - float(entry.mean), 3)
            told[entry.layer] = note.text.split(" the gain")[0], float(entry.std) - gain
    assert {layer: (text, excess > 0) for layer, (text, excess) in told.items()} == {
        "gcn": ("The deviation is as large as", False),
        "gin": ("The deviation is larger than", True),
        "pna": ("The deviation is larger than", True),
    }
    assert told["gcn"][1] == 0
