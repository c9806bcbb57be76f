"""What the paper claims of a theory experiment, and what the records say, in words with numbers."""

from typing import TYPE_CHECKING, Any

from ssma.report.labels import listing
from ssma.statistics.exponent import Exponent, fit_exponent, mean_exponent
from ssma.study.cost import counted

if TYPE_CHECKING:
    import pandas

EXACT = 1e-9  # rounding of derivatives in float64
ROUNDING = 1e-14  # a distance of representations that is not above it counts as 0
SIZES = {
    "size": {"n": "2", "d": "1"},
    "not zero": {"n": "no formula", "d": "no formula"},
    "rank": {"n": "1, as Θ(n d)", "d": "1"},
    "moments": {"n": "C(n + d, d), no power", "d": "C(n + d, d), no power"},
}
"""Size of a representation -> the exponents of the paper's formula."""
INTERVALS = "exponents with 95% intervals of Student's t"
VANISHES = 0.5  # slope in h from which a ratio counts as one that goes to 0: it is 1 where there are second derivatives


def tell(record: dict[str, Any], rows: "pandas.DataFrame") -> tuple[str, str]:
    """Returns the caption with the paper's claim, and the sentences that follow from the rows."""
    claim, words = TELL[record["name"]]
    return claim, words(record["settings"], rows)


def with_ratio(rows: "pandas.DataFrame") -> "pandas.DataFrame":
    """Returns rows of separation with the ratio of both distances, 0 where representations differ by rounding."""
    distance = rows["distance"].where(rows["distance"] > ROUNDING, 0.0)
    return rows.assign(distance=distance, ratio=distance / rows["wasserstein"])


def _sum_of_gram(settings: dict[str, Any], rows: "pandas.DataFrame") -> str:
    trained = rows[rows["activation"].notna()]
    lines = rows[rows["activation"].isna()].groupby("aggregator")["test_l1"].mean()
    cells = trained.groupby(["aggregator", "activation", "m"])["test_l1"]
    rates = " or ".join(f"{lr:g}" for lr in settings["lr"])
    text = (
        f"Here: n = {settings['n']} standard normal vectors of width d = {settings['d']}, "
        f"{counted(settings['train_sets'], 'multiset')} to train on and {settings['test_sets']} to test on, "
        f"{counted(settings['epochs'], 'epoch')} of Adam, learning rate {rates}, "
        f"{counted(settings['seeds'], 'repeat')}. Always answering the train mean has a test error of "
        f"{lines['train mean']:.3g}, the exact solution {lines['exact solution']:.1g}."
    )
    widths = trained[trained["aggregator"] == "ssma"].groupby("m")["width"].first()
    if len(widths):
        shown = listing((f"{width} at m = {m}" for m, width in widths.items()), len(widths))
        text += f" To keep to m, ssma mixes vectors of width {shown}."
    for name in settings["aggregators"]:
        mine = cells.mean()[name].dropna()
        if mine.empty:
            text += f" All trainings of {name} diverged."
            continue
        activation, m = mine.idxmin()
        spread = cells.std()[name][activation, m]
        text += (
            f" The smallest mean test error of {name} is {mine.min():.3g}"
            + ("" if spread != spread else f" ± {spread:.2g}")
            + f" ({activation}, m = {m}), the largest {mine.max():.3g}."
        )
    text += "".join(
        f" {_against_sum(cells.mean(), trained, name)}" for name in settings["aggregators"] if name != "sum"
    )
    text += _over_m(settings, trained)
    lost = int((trained["status"] != "ok").sum())
    return text + (f" Left out, since diverged: {lost} of {counted(len(trained), 'training')}." if lost else "")


def _over_m(settings: dict[str, Any], trained: "pandas.DataFrame") -> str:
    """Says with what exponent the test error changes in m; repeats in which a training diverged do not count."""
    if len(set(settings["m"])) < 2:
        return ""
    ok, told = trained.dropna(subset=["test_l1"]), []
    for (name, activation), mine in ok.groupby(["aggregator", "activation"], sort=False):
        whole = mine.groupby("repeat").filter(lambda repeat: len(repeat) == len(settings["m"]))
        if len(whole):
            told.append(f"{name} with {activation} as m^{_over_repeats(whole, 'repeat', 'm', 'test_l1')}")
    return (
        f" From m = {min(settings['m'])} to {max(settings['m'])} the test error changes ({INTERVALS} over repeats): "
        f"{listing(told, len(told)) or 'all diverged'}. The paper has no formula: by its words the exponent of sum is "
        "0 and that of ssma is negative."
    )


def _over_repeats(rows: "pandas.DataFrame", repeat: str, size: str, value: str) -> Exponent:
    """Returns the exponent of a column in another one, by repeats that are independent."""
    return mean_exponent([(part[size].tolist(), part[value].tolist()) for _, part in rows.groupby(repeat)])


def _against_sum(means: "pandas.Series", trained: "pandas.DataFrame", name: str) -> str:
    """Says in how many cells, and in how many pairs, an aggregator has a lower test error than the sum."""
    both = means.unstack("aggregator").dropna(subset=["sum", name])
    axes = ["activation", "m", "repeat"]
    pairs = trained.pivot(index=axes, columns="aggregator", values="test_l1").dropna(subset=["sum", name])
    return (
        f"The mean test error of {name} is below that of sum in {int((both[name] < both['sum']).sum())} of {len(both)} "
        f"cells (activation, m), and in {int((pairs[name] < pairs['sum']).sum())} of {counted(len(pairs), 'pair')} of "
        f"networks with the same data."
    )


def _mixing(settings: dict[str, Any], rows: "pandas.DataFrame") -> str:
    ok = rows[rows["status"] == "ok"]
    target = ok[ok["aggregator"] == "target"]["mix"]
    text = (
        f"Here: networks with m = {settings['m']} trained on SumOfGram (n = {settings['n']}, d = {settings['d']}), "
        f"{counted(settings['seeds'], 'repeat')}, {settings['multisets']} test multisets each. The target's mixing is "
        f"{target.mean():.4g} for every pair."
    )
    for (name, activation), mine in ok[ok["activation"].notna()].groupby(["aggregator", "activation"], sort=False):
        low, middle, high = mine["mix"].quantile([0.05, 0.5, 0.95])
        text += (
            f" With {activation}, the output of {name} has a median of {middle:.3g} (5% to 95%: {low:.3g} to "
            f"{high:.3g}), what it aggregates alone at most {mine['representation_mix'].max():.3g}."
        )
    bounded = ok.dropna(subset=["bound"])
    if len(bounded):
        held = int((bounded["mix"] <= bounded["bound"] * (1 + EXACT) + EXACT).sum())
        text += f" The bound of proposition 3.2 holds in {held} of {counted(len(bounded), 'measurement')} of sum"
        positive = bounded[bounded["mix"] > EXACT]
        if len(positive):
            text += f" and is in the median {(positive['bound'] / positive['mix']).median():.3g} times the mixing"
            weights = (positive["weights_bound"] / positive["mix"]).dropna()
            text += f", the bound by norms of weights {weights.median():.3g} times" if len(weights) else ""
        text += "."
    lost = int((rows["status"] != "ok").sum())
    return text + (f" {counted(lost, 'training')} diverged." if lost else "")


def _higher_order(settings: dict[str, Any], rows: "pandas.DataFrame") -> str:
    text = f"Here: signals of length {settings['length']}."
    for n in settings["n"]:
        mine = rows[rows["n"] == n].assign(j=rows["j"].map(tuple))
        single = {}
        for name, part in mine.groupby("combine"):
            one = part.assign(
                one=(part["derivative"] - 1).abs() < EXACT, zero=part["derivative"].abs() < EXACT
            ).groupby("j")[["one", "zero"]].sum()  # fmt: skip
            single[name] = int(((one["one"] == 1) & (one["zero"] == settings["length"] - 1)).sum())
        tuples = settings["length"] ** n
        largest = mine.groupby("combine")["derivative"].agg(lambda values: values.abs().max())
        text += (
            f" For n = {n}, {single['convolution']} of {tuples} tuples have one entry of the convolution with "
            f"derivative 1 and 0 in all others; of the sum, {single['sum']} have, its largest derivative is "
            f"{largest['sum']:.3g}. With geometric means of magnitudes, as trained, {single['normalised']} have: at "
            f"the point taken derivatives reach {largest['normalised']:.3g}."
        )
    return text


def _separation(settings: dict[str, Any], rows: "pandas.DataFrame") -> str:
    ratio = with_ratio(rows)
    pairs, limit = ratio[ratio["kind"] != "limit"], ratio[ratio["kind"] == "limit"]
    ratios = pairs.groupby("representation", sort=False)["ratio"]
    smallest, middle = ratios.min(), ratios.median()
    together = smallest[smallest == 0].index
    rest = smallest[smallest > 0].sort_values()
    text = (
        f"Here: {counted(settings['draws'] * settings['pairs'], 'pair')} of each kind, n = {settings['n']}, d = "
        f"{settings['d']}. Some pair has the same representation in {listing(together, 20) or 'none'}. The smallest "
        f"ratios of distance and Wasserstein distance of the others, and what they are of the median: "
        + listing((f"{name} {value:.2g} ({value / middle[name]:.2g})" for name, value in rest.items()), 20)
        + "."
    )
    slopes = {name: _slope(part) for name, part in limit.groupby("representation", sort=False)}
    still = [name for name, slope in slopes.items() if slope is not None and slope.value < VANISHES]
    gone = [name for name, slope in slopes.items() if slope is not None and slope.value >= VANISHES]
    none = [name for name, slope in slopes.items() if slope is None]
    ordered = list(ratio.loc[~ratio["invariant"], "representation"].unique())
    return text + (
        f" In the construction the ratio is 0 (from some h on) for {listing(none, 20) or 'none'}; it goes to 0 for "
        f"{listing((f'{name} (as h^{slopes[name]})' for name in gone), 20) or 'none'} ({INTERVALS} over draws; the "
        f"paper proves that it goes to 0, and where there are second derivatives it does so as h); it stays for "
        f"{listing(still, 20) or 'none'}. The proposition is for functions that are differentiable where vectors "
        f"coincide and ignore their order, which {listing(ordered, 20)} do not."
    )


def _slope(limit: "pandas.DataFrame") -> Exponent | None:
    """Returns the exponent of the ratio in h; None where the ratio of one of the two smallest h is 0 in some draw."""
    smallest = limit["wasserstein"].drop_duplicates().nsmallest(2)
    if (limit[limit["wasserstein"].isin(smallest)]["ratio"] == 0).any():
        return None
    return _over_repeats(limit[limit["ratio"] > 0], "draw", "wasserstein", "ratio")


def _growth(settings: dict[str, Any], rows: "pandas.DataFrame") -> str:
    most = {"n": max(settings["n"]), "d": max(settings["d"])}
    cells = rows[rows["scale"].isna()].pivot(index=["n", "d"], columns="quantity", values="value")
    least = cells.index.get_level_values("n") * cells.index.get_level_values("d")
    text = (
        f"Here: n = {listing(map(str, settings['n']), 20)}, d = {listing(map(str, settings['d']), 20)}. Of the "
        f"{len(cells)} representations of random multisets {int((cells['box'] == cells['size']).sum())} reach the last "
        f"row and column, so that no smaller convolution holds them, and {int((cells['rank'] == least).sum())} "
        f"have a derivative of rank n d, the least size that any representation needs nearby. Of their entries "
        f"{_percent(cells['not zero'] / cells['size'])} are not zero."
    )
    for varied, other in (("n", "d"), ("d", "n")):
        line = cells.xs(most[other], level=other).sort_index()
        fitted = {name: fit_exponent(line.index.tolist(), line[name].tolist()) for name in SIZES}
        told = listing((f"{name} as {varied}^{fitted[name]} (the paper: {SIZES[name][varied]})" for name in SIZES), 9)
        text += f" Over {varied}, with {other} = {most[other]}: {told}."
    text += (
        " Intervals are those of Student's t over the points about a power law; a formula of several terms has its"
        f" exponent in the limit only. Bounds of untrained sums, n = {min(settings['n'])}, d = {min(settings['d'])}, "
        f"m = {settings['m']}, {settings['draws']} draws, all parameters times s = {min(settings['scales']):g} to "
        f"{max(settings['scales']):g} ({INTERVALS} over draws; the paper: 2):"
    )
    bounds = rows[rows["scale"].notna()]
    told = [
        f"{name} with {activation} as s^{_over_repeats(part, 'draw', 'scale', 'value')}"
        for (activation, name), part in bounds.groupby(["activation", "quantity"], sort=False)
    ]
    return f"{text} {listing(told, len(told))}."


def _percent(shares: "pandas.Series") -> str:
    return f"{100 * shares.min():.0f}% to {100 * shares.max():.0f}%"


TELL = {
    "sum_of_gram": (
        "L1 error on SumOfGram over the size of the representation: mean and band of ± the sample standard deviation "
        "over repeats, which all aggregators share. The paper claims that sum aggregators fail at this task whatever "
        "the activation and do not improve with size, while SSMA has low errors with all. The task is the squared norm "
        "of the sum, so that a sum aggregator has the exact solution drawn as a line: what a trained one misses is not "
        "missing in its representation.",
        _sum_of_gram,
    ),
    "mixing": (
        "Norms of the mixed second derivative between two neighbours in trained networks: the share of pairs that are "
        "not above x, pooled, and thin for each repeat. The paper claims that sum-based aggregators mix little: a sum "
        "itself has none, and its network no more than a bound. Curves of values that are zero are not drawn.",
        _mixing,
    ),
    "higher_order": (
        "In the cell of a tuple of entries, one of each signal, are the entries k of the result whose mixed derivative "
        "by all of them is not zero; a dash where there is none. The paper claims that with the convolution exactly "
        "one entry has it, with derivative 1, and with a sum none.",
        _higher_order,
    ),
    "separation": (
        "Distance of untrained representations (L1) against the Wasserstein distance of two multisets: the smallest of "
        "random and near pairs (top), the smallest ratio (middle; dashed: sum on random pairs), and the mean ratio in "
        "the construction of the paper's proposition (bottom). Exact zeros have no place on these scales: they are "
        "hollow in the middle, and named at the bottom. The paper claims that the polynomial's coefficients tell all "
        "multisets apart, and that no differentiable representation is stable: there the ratio goes to 0.",
        _separation,
    ),
    "growth": (
        "Sizes of representations over the number n of vectors and their width d, counted (top), and the bound of "
        "mixing of a sum whose parameters are all multiplied by s (bottom; bands: ± the sample standard deviation over "
        "draws, of the logarithm). The paper claims that SSMA's representation has (n + 1)(n (d - 1) + 1) = O(n² d) "
        "entries, where the moments that a sum needs in DeepSets are C(n + d, d) and the least possible is Θ(n d), and "
        "that the bound is O(|θ|²) with typical networks; its own last line is of degree 5.",
        _growth,
    ),
}
