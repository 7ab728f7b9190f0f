# Thin: each target is a command that can be typed.
CARGO ?= cargo
BENCH_ARGS ?=
BENCH_TESTER_ARGS ?=
BENCH_AUTH_ARGS ?=
BENCH_DNS64_ARGS ?=
PROFILE ?= $(TARGET)/profile/dns64d-misses.svg
FUZZ_SECONDS ?= 60
CARGO_TARGET_DIR ?= target
TARGET = $(CARGO_TARGET_DIR)

.PHONY: bench bench-tester bench-auth bench-dns64 profile test fmt clippy unit docs build fuzz demo-nat64 package package-test

# Measures dns64d on this machine; for example: make bench BENCH_ARGS='--peer unbound'
bench: build
	$(TARGET)/release/sextant bench $(BENCH_ARGS)

# The Measurer beside dnsperf, resperf and kxdpgun in a lab of namespaces; as root.
bench-tester:
	$(CARGO) bench --bench tester -- --out docs/performance/tester.md $(BENCH_TESTER_ARGS)

# The AuthDNS beside NSD, Knot, BIND and YADIFA in a lab of namespaces; as root.
bench-auth:
	$(CARGO) bench --bench auth -- --out docs/performance/auth.md $(BENCH_AUTH_ARGS)

# dns64d beside the other DNS64 servers in a lab of namespaces; as root.
bench-dns64:
	$(CARGO) bench --bench dns64 -- --out docs/performance/dns64.md $(BENCH_DNS64_ARGS)

# A flame graph of dns64d answering names that are not cached, under the lab's load; as root, with perf.
profile:
	$(CARGO) bench --bench dns64 -- --profile $(abspath $(PROFILE))

build:
	$(CARGO) build --release --bins

# An IPv6-only client fetches a page from an IPv4-only server through dns64d and tayga; as root.
demo-nat64: build
	demo/nat64.sh $(TARGET)/release/dns64d

# Debian packages of both programs, in target/package; needs Debian's debhelper.
package:
	$(CARGO) build --release --locked --bins --example assets
	rm -rf $(TARGET)/package
	$(TARGET)/release/examples/assets $(TARGET)/package/assets
	dist/package $(TARGET)/release $(TARGET)/package/assets $(TARGET)/package

# Installs, uses and removes these packages on an overlay of this machine's files; as root.
package-test:
	dist/package-test $(TARGET)/package

# What CI runs.
test: fmt clippy unit docs

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy --all-targets --features validation --quiet -p sextant -p sextant-proxy -- -D warnings

unit:
	tests/run --workspace
	tests/run --features validation -p sextant-proxy --lib config::
	tests/run --features validation --test validation

docs:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items --quiet

# Each target for so long; the program in the kernel (xdp_answer) as root. Inputs that crash stay in fuzz/artifacts.
FUZZ_TARGETS ?= answer config dns64d https_request records xdp_answer zone

fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || \
	    { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz (and a C++ compiler)" >&2; exit 1; }
	for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/corpus/$$target && \
	    $(CARGO) fuzz run --fuzz-dir fuzz -s none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	        -max_total_time=$(FUZZ_SECONDS) -max_len=$$([ $$target = xdp_answer ] && echo 1514 || echo 4096) -timeout=10 -print_final_stats=1 || exit 1; \
	done
