"""Corpus of a fuzz target: a file with an input per line in Base64, and a directory with an input per file.

corpus.py unpack FILE DIR
corpus.py pack DIR FILE KEPT    at most KEPT inputs, of all lengths, the shortest first
"""

import base64
import hashlib
import pathlib
import sys


def unpack(file, directory):
    path = pathlib.Path(file)
    for line in path.read_text().splitlines() if path.exists() else []:
        value = base64.b64decode(line)
        (pathlib.Path(directory) / hashlib.sha1(value).hexdigest()).write_bytes(value)


def pack(directory, file, kept):
    values = {path.read_bytes() for path in pathlib.Path(directory).iterdir()}
    least = sorted(values, key=lambda value: (len(value), value))
    least = least[:: -(-len(least) // int(kept)) or 1]
    pathlib.Path(file).write_text("".join(base64.b64encode(value).decode() + "\n" for value in least))
    print(f"{file}: {len(least)} of {len(values)} inputs")


if __name__ == "__main__":
    {"unpack": unpack, "pack": pack}[sys.argv[1]](*sys.argv[2:])
