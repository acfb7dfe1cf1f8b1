#!/usr/bin/env python3
"""Trains the two forests that choose the blocks of the main text, and measures them by cross-validation.

  train.py --data DIR --figures PROGRAM --work DIR [--export DIR]

DIR holds truth.jsonl.gz, pages/ID.html.gz and evaluate.py, whose measure is used as it is. PROGRAM is the example `figures`.
The figures that are printed are those of pages that the forests did not see: five folds, by page. With --export, forests are
trained on all pages and written to DIR as first.bin and second.bin.
"""
import argparse
import gzip
import importlib.util
import json
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

FOLDS = 5
# As in src/choice.rs.
THRESHOLD = 0.4
SEEDS = {"first": 1, "second": 2}


def read_truth(data):
    with gzip.open(data / "truth.jsonl.gz", "rt", encoding="utf8") as file:
        rows = map(json.loads, file)
        return {row["id"]: row for row in rows if row.get("text") and row["set"] != "rdjs"}


def run_figures(program, data, out, probabilities=None):
    with out.open("w") as file:
        subprocess.run([program, data, *([probabilities] if probabilities else [])], stdout=file, check=True)


def read_figures(path, truth):
    pages = {}
    with path.open(encoding="utf8") as file:
        for line in file:
            row = json.loads(line)
            if row["id"] in truth:
                row["values"] = np.array(row["values"], dtype=np.float32).reshape(-1, max(1, row["width"]))
                pages[row["id"]] = row
    return pages


def label(texts, true, token):
    """Share of each block's shingles that are in the true text, each as often as it is there; and its number of tokens."""
    tokens = [token.findall(text.replace("\u00ad", "")) for text in texts]
    wanted = token.findall(true.replace("\u00ad", ""))
    left = Counter(tuple(wanted[at:at + 4]) for at in range(max(1, len(wanted) - 3)))
    shares = np.zeros(len(texts))
    for at, own in enumerate(tokens):
        if len(own) < 4:
            continue
        mine = Counter(tuple(own[i:i + 4]) for i in range(len(own) - 3))
        common = mine & left
        shares[at] = sum(common.values()) / sum(mine.values())
        if shares[at] >= 0.5:
            left -= common
    # A short block has shingles only together with its neighbours.
    every = set(tuple(wanted[at:at + 4]) for at in range(max(1, len(wanted) - 3)))
    for at, own in enumerate(tokens):
        if not 0 < len(own) < 4:
            continue
        before = [t for other in tokens[max(0, at - 4):at] for t in other][-3:]
        after = [t for other in tokens[at + 1:at + 5] for t in other][:3]
        run = before + own + after
        spans = [tuple(run[i:i + 4]) for i in range(len(run) - 3) if i < len(before) + len(own) and i + 4 > len(before)]
        shares[at] = float(any(span in every for span in spans)) if spans else float(tuple(own) in every)
    return shares, np.array([len(own) for own in tokens])


def forest(seed, trees):
    return HistGradientBoostingClassifier(
        max_iter=trees, max_leaf_nodes=15, learning_rate=0.06, min_samples_leaf=40, l2_regularization=5.0,
        max_features=0.25, early_stopping=False, random_state=seed)


def weights(sizes, true_size):
    """Weight of each block: by its part of the page's measure, but none is without weight."""
    return (sizes + 2.0) / (true_size + 60.0)


def in_order(nodes):
    """The inner nodes, each with the bits of the leaves that remain where its condition holds; and the leaves from left to right."""
    inner, leaves = [], []

    def visit(at):
        if nodes[at]["is_leaf"]:
            leaves.append(at)
            return
        first = len(leaves)
        visit(nodes[at]["left"])
        removed = ((1 << len(leaves)) - 1) ^ ((1 << first) - 1)
        inner.append((at, 0xffff ^ removed))
        visit(nodes[at]["right"])

    visit(0)
    return inner, leaves


def write_forest(model, path):
    """Writes a forest in the form that `src/forest.rs` reads."""
    trees = [tree.nodes for (tree,) in model._predictors]
    # A tree of one leaf is a part of the base.
    base = float(model._baseline_prediction.ravel()[0]) + sum(float(nodes[0]["value"]) for nodes in trees if len(nodes) == 1)
    trees = [nodes for nodes in trees if len(nodes) > 1]
    out = bytearray(struct.pack("<fH", base, len(trees)))
    for nodes in trees:
        inner, leaves = in_order(nodes)
        out.append(len(inner))
        for node, remaining in inner:
            out += struct.pack("<BfH", nodes[node]["feature_idx"], nodes[node]["num_threshold"], remaining)
        out += struct.pack(f"<{len(leaves)}f", *(nodes[leaf]["value"] for leaf in leaves))
    path.write_bytes(out)
    print(f"{path}: {len(trees)} trees, {len(out)} bytes")


class Training:
    def __init__(self, arguments):
        self.data, self.work, self.trees = Path(arguments.data), Path(arguments.work), arguments.trees
        self.program = arguments.figures
        spec = importlib.util.spec_from_file_location("evaluate", self.data / "evaluate.py")
        self.evaluate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.evaluate)
        self.truth = read_truth(self.data)
        figures = self.work / "figures.jsonl"
        if not arguments.keep or not figures.exists():
            run_figures(self.program, self.data, figures)
        self.pages = read_figures(figures, self.truth)
        self.ids = sorted(self.pages)
        self.fold = {page: zlib.crc32(page.encode()) % FOLDS for page in self.ids}
        token = self.evaluate.TOKEN
        self.shares, self.sizes, self.weights = {}, {}, {}
        for page in self.ids:
            self.shares[page], self.sizes[page] = label(self.pages[page]["texts"], self.truth[page]["text"], token)
            self.weights[page] = weights(self.sizes[page], len(token.findall(self.truth[page]["text"])))

    def rows(self, ids, values):
        x = np.concatenate([values[page] for page in ids])
        share = np.concatenate([self.shares[page] for page in ids])
        weight = np.concatenate([self.weights[page] for page in ids])
        # Blocks that are half in the true text teach less.
        return x, share >= 0.5, weight * (0.2 + np.abs(2 * share - 1))

    def fit(self, ids, values, seed):
        x, y, weight = self.rows(ids, values)
        return forest(seed, self.trees).fit(x, y, sample_weight=weight / weight.mean())

    def out_of_fold(self, values, seed):
        """Probabilities of each page by a forest that did not see it."""
        found = {}
        for fold in range(FOLDS):
            model = self.fit([page for page in self.ids if self.fold[page] != fold], values, seed)
            for page in self.ids:
                if self.fold[page] == fold:
                    found[page] = model.predict_proba(values[page])[:, 1] if len(values[page]) else np.zeros(0)
        return found

    def chosen(self, page, probabilities):
        """The rule of `src/choice.rs`."""
        chosen, sizes = probabilities >= THRESHOLD, self.sizes[page]
        if sizes[chosen].sum() < 12 and sizes[chosen].sum() * 4 < sizes.sum():
            chosen[:] = True
        return "\n".join(text for text, is_chosen in zip(self.pages[page]["texts"], chosen) if is_chosen)

    def measure(self, name, probabilities):
        groups = {}
        for page in self.ids:
            row = self.truth[page]
            score = self.evaluate.compare(row["text"], self.chosen(page, probabilities[page]))
            kind = f"wcxb/{row['kind']}" if row["set"].startswith("wcxb") else row["set"]
            groups.setdefault(kind, []).append(score)
            groups.setdefault("all", []).append(score)
        print(f"{name}\n{'kind':<20}{'pages':>6}{'F1':>8}{'P':>8}{'R':>8}{'pageF1':>8}")
        for kind, scores in sorted(groups.items()):
            p, r, f1 = self.evaluate.overall(scores)
            mean = np.mean([self.evaluate.page_f1(score) for score in scores])
            print(f"{kind:<20}{len(scores):>6}{f1:>8.3f}{p:>8.3f}{r:>8.3f}{mean:>8.3f}")
        sys.stdout.flush()

    def further(self, first):
        """Input of the second forest, given probabilities of the first."""
        path = self.work / "probabilities.jsonl"
        with path.open("w") as file:
            for page in self.ids:
                values = [round(float(value), 6) for value in first[page]]
                file.write(json.dumps({"id": page, "probabilities": values}) + "\n")
        out = self.work / "surroundings.jsonl"
        run_figures(self.program, self.data, out, path)
        rows = read_figures(out, self.truth)
        own = self.first_values()
        return {page: np.concatenate([own[page], rows[page]["values"]], axis=1) for page in self.ids}

    def first_values(self):
        return {page: self.pages[page]["values"] for page in self.ids}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--figures", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--export")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--keep", action="store_true", help="use the figures of the previous run")
    arguments = parser.parse_args()
    training = Training(arguments)
    training.measure("best choice of blocks", {page: (share >= 0.5).astype(float) for page, share in training.shares.items()})
    first = training.out_of_fold(training.first_values(), SEEDS["first"])
    training.measure("first forest, cross-validated", first)
    values = training.further(first)
    second = training.out_of_fold(values, SEEDS["second"])
    training.measure("both forests, cross-validated", second)
    if arguments.export:
        out = Path(arguments.export)
        write_forest(training.fit(training.ids, training.first_values(), SEEDS["first"]), out / "first.bin")
        write_forest(training.fit(training.ids, values, SEEDS["second"]), out / "second.bin")


if __name__ == "__main__":
    main()
