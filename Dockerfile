# One image with all programs; the command chooses one:
#
#   docker build --build-arg REVISION="$(git rev-parse --short=12 HEAD)" --tag orbweaver:0.1.0 .
#   docker run --rm orbweaver:0.1.0 --help
#   docker run --rm --entrypoint orbweaver-fetcher orbweaver:0.1.0 --help
#
# Compiled code is kept in cache mounts, not in a layer of dependencies: a layer is lost as a whole when one line of Cargo.lock
# changes, and librdkafka and OpenSSL, which are built from source here, take minutes. A builder that keeps no state between
# builds compiles everything each time.

# The same as in rust-toolchain.toml. Both stages are Debian 13, so that the C libraries agree.
ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-slim-trixie AS build
ARG RUST_VERSION
# rust-toolchain.toml also requests clippy and rustfmt, which are not needed here.
ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# librdkafka needs a C++ compiler and make, OpenSSL perl, aws-lc (for rustls) cmake on some platforms. Debian removes old versions
# of a package when it fixes one, so a build with a pinned version would break.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake g++ make perl \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The commit, for `--version` and orbweaver_build_info: there is no .git here.
ARG REVISION=unknown
# The files get the time of now: cargo compares times, and those of a checkout may be older than what the cache holds of another one.
# Libraries that are linked dynamically must be in the last image: only the C and C++ runtimes are.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    find . -path ./target -prune -o -type f -exec touch {} + \
 && ORBWEAVER_GIT_HASH=$REVISION cargo build --locked --profile dist --features tls \
      --package orbweaver-frontier \
      --package orbweaver-normalizer-dedup \
      --package orbweaver-rate-limiter \
      --package orbweaver-fetcher \
      --package orbweaver-extractor \
      --package orbweaver-archiver \
      --package orbweaver-urlstore \
      --package orbweaver \
 && install -D --target-directory=/out \
      target/dist/orbweaver-frontier \
      target/dist/orbweaver-normalizer-dedup \
      target/dist/orbweaver-rate-limiter \
      target/dist/orbweaver-fetcher \
      target/dist/orbweaver-extractor \
      target/dist/orbweaver-archiver \
      target/dist/orbweaver-urlstore \
      target/dist/orbweaver \
 && for program in /out/*; do \
      if ldd "$program" | grep -vE '^\s*(linux-vdso|/lib(64)?/ld-linux|lib(c|m|gcc_s|stdc\+\+|dl|rt|pthread)\.so)'; then \
        echo "$program needs a library that the last image does not have" >&2; exit 1; \
      fi; \
    done \
 && mkdir -p /state/orbweaver

# The C and C++ runtimes, certificates of authorities, time zones; no shell and no package manager. The tag names the release of
# Debian and gets its fixes; use a digest for the same bytes each time.
FROM gcr.io/distroless/cc-debian13:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Orbweaver" \
      org.opencontainers.image.description="The programs of Orbweaver, a polite web crawler that can be stopped at any instant and continues where it was" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian13:nonroot"
# For rustls, and for OpenSSL in librdkafka, which was built elsewhere and looks in places of its own.
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /usr/local/bin/
# An empty directory for state: a new volume takes over its owner.
COPY --from=build --chown=65532:65532 /state/ /var/lib/
COPY LICENSE /usr/share/doc/orbweaver/copyright
WORKDIR /var/lib/orbweaver
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# Probes and metrics of normalizer-dedup, frontier, rate-limiter, fetcher, extractor, archiver and urlstore, if ORBWEAVER_HTTP__LISTEN is not
# on loopback, as it is by default.
EXPOSE 9461 9462 9463 9464 9465 9466 9467
STOPSIGNAL SIGTERM
# A service is started by its own name instead: `command` in Kubernetes, `entrypoint` in Compose.
ENTRYPOINT ["/usr/local/bin/orbweaver"]
