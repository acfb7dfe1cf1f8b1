"""`orbweaver rank` finds the same ranks as another implementation of PageRank."""

import json
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import cluster
import igraph

DAMPING = 0.7


def graph(sites, edges, generator):
    """A random graph, some of whose sites have most of the links, and some none."""
    targets = [generator.randrange(sites) for _ in range(1 + sites // 10)]
    ends = ((generator.randrange(sites * 9 // 10), generator.choice([generator.choice(targets), generator.randrange(sites)])) for _ in range(edges))
    return sorted({(start, end) for start, end in ends if start != end})


def documents(sites, edges):
    """One document per site and another one for a part of its links, in the order of the numbers."""
    for site in range(sites):
        links = [f"https://www.s{end}.example/{end}" for start, end in edges if start == site]
        for part in (links, links[::2]):
            yield {"site": f"s{site}.example", "links": [{"url": url, "text": ""} for url in part]}


class Rank(unittest.TestCase):
    def ranked(self, sites, edges):
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        lines = (json.dumps(document) + "\n" for document in documents(sites, edges))
        (directory / "documents.jsonl").write_text("".join(lines))
        command = [cluster.binary("orbweaver"), "rank", directory, "--format", "jsonl", "--tolerance", "1e-13", "--damping", str(DAMPING)]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        self.assertIn("converged after", ended.stderr)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def test_the_ranks_are_those_of_igraph(self):
        generator = random.Random(7)
        for sites, links in ((2, 1), (60, 50), (400, 3000)):
            edges = graph(sites, links, generator)
            expected = igraph.Graph(sites, edges, directed=True).pagerank(damping=DAMPING)
            ranked = self.ranked(sites, edges)
            ranks = {row["site"]: row["rank"] for row in ranked}
            self.assertEqual(set(ranks), {f"s{site}.example" for site in range(sites)})
            for site in range(sites):
                self.assertAlmostEqual(ranks[f"s{site}.example"], expected[site], delta=1e-10)
            self.assertEqual([row["rank"] for row in ranked], sorted(ranks.values(), reverse=True))


if __name__ == "__main__":
    unittest.main()
