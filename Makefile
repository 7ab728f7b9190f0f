# Thin: each target is a command that can be typed.
CARGO ?= cargo
BENCH_ARGS ?=
BENCH_TESTER_ARGS ?=
BENCH_AUTH_ARGS ?=

.PHONY: bench bench-tester bench-auth test fmt clippy unit docs build

# Measures dns64d on this machine; for example: make bench BENCH_ARGS='--peer unbound'
bench: build
	./target/release/sextant bench $(BENCH_ARGS)

# The Measurer beside dnsperf, resperf and kxdpgun in a lab of namespaces; as root.
bench-tester:
	$(CARGO) bench --bench tester -- --out docs/performance/tester.md $(BENCH_TESTER_ARGS)

# The AuthDNS beside NSD, Knot, BIND and YADIFA in a lab of namespaces; as root.
bench-auth:
	$(CARGO) bench --bench auth -- --out docs/performance/auth.md $(BENCH_AUTH_ARGS)

build:
	$(CARGO) build --release --bins

# What CI runs.
test: fmt clippy unit docs

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

unit:
	$(CARGO) test --workspace

docs:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items --quiet
