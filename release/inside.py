"""Libraries and data of others inside packages: C code that a package compiles and links, and lists that it has in its code.

No file of cargo names them, but their faults and their licences reach users too.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dependencies import Dependencies, Package
from refusal import Refused

# Packages that look as if they had such a library, and have none: bindings alone, or a build tool.
WITHOUT = frozenset({"aws-lc-rs", "cc", "cmake", "linux-raw-sys", "openssl-sys"})


@dataclass(frozen=True)
class Inner:
    """A library or data, its version and its owner."""

    name: str
    version: str
    licence: str
    purl: str
    cpe: str | None
    owner: str
    # The directories with its licences.
    directories: tuple[Path, ...]
    note: str | None = None
    kind: str = "library"

    @property
    def key(self) -> str:
        """Returns the name by which it is referred to."""
        return f"{self.name}@{self.version}"


def read(file: Path, pattern: str) -> tuple[str, ...]:
    """Returns the groups of a pattern in a file."""
    found = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL) if file.is_file() else None
    if not found:
        raise Refused(f"the version of a library could not be read from {file}")
    return found.groups()


def librdkafka(package: Package) -> Inner:
    """The client of Kafka; lz4, cJSON and others are parts of its source."""
    directory = package.directory / "librdkafka"
    (version,) = read(directory / "src/rdkafka.h", r"^#define RD_KAFKA_VERSION 0x([0-9a-f]{6})")
    version = ".".join(str(int(version[at : at + 2], 16)) for at in (0, 2, 4))
    note = "Compiled with the header crates/log/librdkafka/orbweaver_librdkafka.h before each file."
    return Inner("librdkafka", version, "BSD-2-Clause", f"pkg:github/confluentinc/librdkafka@v{version}", None, package.key, (directory,), note)


def openssl(package: Package) -> Inner:
    """TLS to the brokers, in librdkafka alone."""
    directory = package.directory / "openssl"
    version = ".".join(read(directory / "VERSION.dat", r"^MAJOR=(\d+)$.*^MINOR=(\d+)$.*^PATCH=(\d+)$"))
    purl, cpe = f"pkg:github/openssl/openssl@openssl-{version}", f"cpe:2.3:a:openssl:openssl:{version}:*:*:*:*:*:*:*"
    return Inner("openssl", version, "Apache-2.0", purl, cpe, package.key, (directory,))


def aws_lc(package: Package) -> Inner:
    """Cryptography of rustls. The licence is that of the package, which names the parts."""
    directory = package.directory / "aws-lc"
    (version,) = read(directory / "include/openssl/base.h", r'^#define AWSLC_VERSION_NUMBER_STRING "([^"]+)"$')
    return Inner("aws-lc", version, package.licence, f"pkg:github/aws/aws-lc@v{version}", None, package.key, (directory, directory / "third_party/fiat"))


def jemalloc(package: Package) -> Inner:
    """The allocator. No file of its source has the version; that of the package does."""
    found = re.search(r"\+(\d+\.\d+\.\d+)", package.version)
    if not found:
        raise Refused(f"the version of jemalloc could not be read from that of {package.key}")
    purl = f"pkg:github/jemalloc/jemalloc@{found[1]}"
    return Inner("jemalloc", found[1], "BSD-2-Clause", purl, None, package.key, (package.directory / "jemalloc",))


def zstd(package: Package) -> Inner:
    """Compression."""
    directory = package.directory / "zstd"
    parts = r".*".join(rf"^#define ZSTD_VERSION_{part} +(\d+)$" for part in ("MAJOR", "MINOR", "RELEASE"))
    version = ".".join(read(directory / "lib/zstd.h", parts))
    purl, cpe = f"pkg:github/facebook/zstd@v{version}", f"cpe:2.3:a:facebook:zstandard:{version}:*:*:*:*:*:*:*"
    return Inner("zstd", version, "BSD-3-Clause OR GPL-2.0-only", purl, cpe, package.key, (directory,))


def suffixes(package: Package) -> Inner:
    """The list of public suffixes, which has a licence of its own and no version."""
    note = f"The list is in data/rules.txt of the package psl {package.version}."
    purl = "pkg:github/publicsuffix/list"
    return Inner("public-suffix-list", f"psl-{package.version}", "MPL-2.0", purl, None, package.key, (), note, kind="data")


INSIDE: dict[str, Callable[[Package], Inner]] = {
    "aws-lc-sys": aws_lc,
    "openssl-src": openssl,
    "psl": suffixes,
    "rdkafka-sys": librdkafka,
    "tikv-jemalloc-sys": jemalloc,
    "zstd-sys": zstd,
}


def inside(dependencies: Dependencies) -> list[Inner]:
    """Returns the libraries and data inside packages. Refuses a package that looks as if it compiled C code of which nothing is known here."""
    found = []
    for key, package in dependencies.packages.items():
        if package.name in INSIDE:
            found.append(INSIDE[package.name](package))
            continue
        compiles = any(used.split("@")[0] in ("cc", "cmake") for used in dependencies.edges[key])
        looks = compiles or package.links or package.name.endswith(("-sys", "-src"))
        if looks and package.name not in WITHOUT:
            raise Refused(f"the package {key} may compile a library of its own: name it in release/inside.py")
    return sorted(found, key=lambda inner: inner.key)
