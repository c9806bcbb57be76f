"""Writers of tiny data sets in the on-disk formats of the real ones, and plain descriptions of what they wrote."""

import gzip
import pickle
import zipfile

import torch

# nodes and undirected edges of seven graphs: paths, a triangle, lone nodes
SHAPES = [
    (3, [(0, 1), (1, 2)]),
    (2, [(0, 1)]),
    (1, []),
    (3, [(0, 1), (1, 2), (0, 2)]),
    (4, [(0, 3)]),
    (2, []),
    (5, [(1, 4)]),
]
PARTS = {"train": [0, 2, 5], "val": [6, 1], "test": [3, 4]}
ORDER = [0, 2, 5, 6, 1, 3, 4]
SIZES = (3, 2, 2)


def directed(edges):
    """Both directions, sorted by source and then target."""
    return sorted([*edges, *((b, a) for a, b in edges)])


def write_zinc(mirror):
    raw = mirror / "ZINC" / "raw"
    raw.mkdir(parents=True)
    for part, numbers in PARTS.items():
        molecules = {}
        for number in numbers:
            nodes, edges = SHAPES[number]
            bonds = torch.zeros(nodes, nodes, dtype=torch.int64)
            for a, b in edges:
                bonds[a, b] = bonds[b, a] = 1 + (a + b) % 3
            molecules[10 * number] = {
                "atom_type": torch.arange(nodes) + number,
                "bond_type": bonds,
                "logP_SA_cycle_normalized": torch.tensor([number + 0.5]),
            }
        molecules[999] = {"atom_type": torch.tensor([27])}  # of the full set, not in the subset
        (raw / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        (raw / f"{part}.index").write_text(",".join(str(10 * number) for number in numbers) + "\n")


def change_a_bit(path):
    """Of a number in a file that ``torch.save`` wrote."""
    with zipfile.ZipFile(path) as parts:
        tensor = max(parts.infolist(), key=lambda part: part.file_size if "/data/" in part.filename else 0)
        held = parts.read(tensor)
    written = path.read_bytes()
    place = written.index(held)
    path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])


def write_lrgb(mirror, name, outputs):
    raw = mirror / "LRGB" / name / "raw"
    raw.mkdir(parents=True)
    for part, numbers in PARTS.items():
        graphs = []
        for number in numbers:
            nodes, edges = SHAPES[number]
            pairs = directed(edges)
            edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t().contiguous()
            x = torch.zeros(nodes, 9, dtype=torch.int64)
            x[:, 0] = torch.arange(nodes) + number
            y = (torch.arange(outputs).float() + number) % 2 if outputs == 10 else torch.arange(outputs) + number / 4
            graphs.append(
                (
                    x,
                    torch.tensor([[b % 2, a % 3, 1] for a, b in pairs], dtype=torch.int64).reshape(-1, 3),
                    edge_index,
                    y.reshape(1, -1),
                )
            )
        torch.save(graphs, raw / f"{part}.pt")


def write_ogb(mirror, name, labels, leave_out=()):
    """``labels``: one list per graph, None where a label is missing."""
    folder = mirror / "OGB" / name
    tables = {
        "raw/edge": [edge for _, edges in SHAPES for edge in edges],
        "raw/edge-feat": [(a, b, 0) for _, edges in SHAPES for a, b in edges],
        "raw/node-feat": [
            (number + node, *[0] * 8) for number, (nodes, _) in enumerate(SHAPES) for node in range(nodes)
        ],
        "raw/num-node-list": [(nodes,) for nodes, _ in SHAPES],
        "raw/num-edge-list": [(len(edges),) for _, edges in SHAPES],
        "raw/graph-label": labels,
        "split/scaffold/train": [(number,) for number in PARTS["train"]],
        "split/scaffold/valid": [(number,) for number in PARTS["val"]],
        "split/scaffold/test": [(number,) for number in PARTS["test"]],
    }
    write_tables(folder, tables)
    for file in leave_out:
        (folder / file).unlink()


# A ring of 24 nodes in groups of four, which are complete graphs: METIS finds them. Node n has the class n % 5.
OGBN_NODES = 24
OGBN_SIZES = (12, 4, 8)
OGBN_SPLIT = {"train": list(range(0, 24, 2)), "valid": [1, 7, 13, 19], "test": [3, 5, 9, 11, 15, 17, 21, 23]}
_GROUPS = [(4 * g + a, 4 * g + b) for g in range(6) for a in range(4) for b in range(a)]
OGBN_EDGES = [*_GROUPS, *((4 * g + 3, (4 * g + 4) % 24) for g in range(6))]
OGBN_EXTRA = [(0, 1), (5, 5)]  # the other direction of an edge, and a self-loop


def write_ogbn(mirror, name="ogbn_arxiv"):
    folder = mirror / "OGB" / name
    arxiv = name == "ogbn_arxiv"
    tables = {
        "raw/edge": [*OGBN_EDGES, *OGBN_EXTRA] if arxiv else OGBN_EDGES,
        "raw/node-feat": [(n / 8, -1.5, float(n % 5 == 0)) for n in range(OGBN_NODES)],
        "raw/node-label": [(n % 5,) for n in range(OGBN_NODES)],
        "raw/num-node-list": [(OGBN_NODES,)],
        "raw/num-edge-list": [(len(OGBN_EDGES) + (len(OGBN_EXTRA) if arxiv else 0),)],
    }
    if arxiv:
        tables["raw/node_year"] = [(2000 + n,) for n in range(OGBN_NODES)]
    split = "time" if arxiv else "sales_ranking"
    tables |= {f"split/{split}/{part}": [(n,) for n in numbers] for part, numbers in OGBN_SPLIT.items()}
    write_tables(folder, tables)


def write_tables(folder, tables):
    for table, rows in tables.items():
        path = folder / f"{table}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(",".join("" if value is None else str(value) for value in row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()))
    (folder / "RELEASE_v1.txt").write_text("")
