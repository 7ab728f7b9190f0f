# Thin: each target is a command that can be typed.
CARGO ?= cargo
BENCH_ARGS ?=
BENCH_TESTER_ARGS ?=
BENCH_AUTH_ARGS ?=
BENCH_DNS64_ARGS ?=
PROMISES ?=
ATTACKS ?=
KERNEL_TEST ?=
PROFILE ?= $(TARGET)/profile/dns64d-misses.svg
FUZZ_SECONDS ?= 60
# Measurements in each row of the two tables; of the second one also where trials last 60 s.
SEARCH_TRUTH ?= 1000
NOISE_TRUTH ?= 200,20
CARGO_TARGET_DIR ?= target
TARGET = $(CARGO_TARGET_DIR)

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Seconds of all attacks together, and forged packets, in the short form.
ATTACK_S ?= 20
FORGED_PACKETS ?= 2000000

.PHONY: bench bench-tester bench-auth bench-dns64 promises attack-test \
    attack-lab profile build bpf demo-nat64 static static-test bare-test kernel-test package package-test \
    unit-test image image-test \
    test fmt clippy unit examples docs fuzz-check deep-test deep-unit deep-truth deny msrv miri fuzz

# Measures dns64d on this machine; for example: make bench BENCH_ARGS='--peer unbound'. The profile `first`
# needs a third less time than a release; dns64d takes about 2 % more processor time for a miss
# (docs/decisions/0069).
bench:
	$(CARGO) build --profile first --bins
	$(TARGET)/first/sextant bench $(BENCH_ARGS)

# The Measurer beside dnsperf, resperf and kxdpgun in a lab of namespaces; as root.
bench-tester:
	$(CARGO) bench --bench tester -- --out docs/performance/tester.md $(BENCH_TESTER_ARGS)

# The AuthDNS beside NSD, Knot, BIND and YADIFA in a lab of namespaces; as root.
bench-auth:
	$(CARGO) bench --bench auth -- --out docs/performance/auth.md $(BENCH_AUTH_ARGS)

# dns64d beside the other DNS64 servers in a lab of namespaces; as root.
bench-dns64:
	$(CARGO) bench --bench dns64 -- --out docs/performance/dns64.md $(BENCH_DNS64_ARGS)

# Other load generators beside ours, counts of real servers, a reload, an overload, every campaign; as root,
# two hours. Writes docs/performance/promises.md.
promises: build
	benches/promises $(PROMISES)

# Every attack on dns64d: the lab in a short form, as root, then the tests that carry one out, and before and
# after of each. All of it runs even if a part fails.
attack-test: build
	status=0; \
	$(CARGO) bench --bench attacks -- together forger --duration $(ATTACK_S) --packets $(FORGED_PACKETS) || \
	    status=1; \
	tests/attacks || status=1; \
	exit $$status

# All attacks together for 10 minutes, 100 million forged packets, IDs and ports beside Unbound's, in a lab of
# namespaces; as root, half an hour. Writes docs/performance/attacks.md.
attack-lab: build
	$(CARGO) bench --bench attacks -- --out docs/performance/attacks.md $(ATTACKS)

# A flame graph of dns64d answering names that are not cached, under the lab's load; as root, with perf.
profile:
	$(CARGO) bench --bench dns64 -- --profile $(abspath $(PROFILE))

build:
	$(CARGO) build --release --bins

# Renews the compiled BPF programs in the repository, with Debian 12's clang-14 and llvm-14.
bpf:
	RENEW_BPF=1 $(CARGO) test --package sextant-bpf-build --test objects

# An IPv6-only client fetches a page from an IPv4-only server through dns64d and tayga; as root.
demo-nat64: build
	demo/nat64.sh $(TARGET)/release/dns64d

# Both programs in target/static, without shared libraries: each file runs on every Linux of this
# architecture. Because the target is named, the flags are not for build scripts, which cannot be static.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC = RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_RELEASE_STRIP=debuginfo

static:
	$(STATIC) $(CARGO) build --release --locked --bins --target $(HOST)
	install -D -t $(TARGET)/static $(TARGET)/$(HOST)/release/dns64d $(TARGET)/$(HOST)/release/sextant

# Uses them where there is nothing else; as root.
static-test:
	dist/static-test $(TARGET)/static

# A bench of dns64d where there is no other program, as root and without; as root.
bare-test: build
	dist/bare-test $(TARGET)/release

# Loads and uses all their BPF programs under another kernel, in QEMU; docs/releasing.md has what to name:
# make kernel-test KERNEL_TEST='ROOT KERNEL MODULES'.
kernel-test:
	dist/kernel-test $(TARGET)/static $(KERNEL_TEST)

# Debian packages of both programs, in target/package; needs Debian's debhelper.
package:
	$(CARGO) build --release --locked --bins --example assets
	rm -rf $(TARGET)/package
	$(TARGET)/release/examples/assets $(TARGET)/package/assets
	dist/package $(TARGET)/release $(TARGET)/package/assets $(TARGET)/package

# Installs, uses and removes these packages on an overlay of this machine's files; as root.
package-test:
	dist/package-test $(TARGET)/package

# Boots systemd in a container with these packages, and tries the units; as root, with Debian's
# systemd-container.
unit-test:
	dist/unit-test $(TARGET)/package

# Images of the static programs, with podman or docker.
image: static
	dist/image $(TARGET)/static

# Uses them: a trial and a bench of the one image at the other.
image-test:
	dist/image-test

# What CI runs: within 30 minutes on two processors. What is soon known comes first.
test: fmt clippy fuzz-check docs examples unit

# What takes longer, before a release. Each part can be made alone. `unit` has the tests that attack; the lab
# of attacks is attack-lab, as root on a quiet machine.
deep-test: fmt clippy docs deny msrv miri examples deep-unit deep-truth fuzz

fmt:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

clippy:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy --all-targets --features validation,parquet --quiet \
	    -p sextant -p dns64d-daemon -p sextant-cli -- -D warnings

# Every fuzz target compiles. They are a workspace of their own, which shares the compiled dependencies.
fuzz-check:
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --target-dir $(TARGET) --locked --quiet -- -D warnings

unit:
	tests/run --workspace
	tests/run --features validation -p dns64d-daemon --lib config::
	tests/run --features parquet -p sextant-cli --lib output::parquet
	tests/run --features validation,parquet --test validation

# The examples end with an error if what they show is not so.
examples:
	$(CARGO) run --quiet -p dns64d-core --example machine
	$(CARGO) run --quiet -p sextant-authdns --example zone
	$(CARGO) run --quiet -p sextant-engine --example lane

# Links to private items are good here, for the private items are documented, too.
docs:
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps \
	    --document-private-items --quiet

# The tests with ten times as many inputs for each property, 2560.
deep-unit:
	PROPTEST_CASES=2560 $(MAKE) unit

# Computes the tables of docs/method.md again that say how true the results of the searches are: half an hour.
deep-truth:
	SEARCH_TRUTH=$(SEARCH_TRUTH) NOISE_TRUTH=$(NOISE_TRUTH) \
	    $(CARGO) test --release -p sextant-engine --test search_truth

# Licences, bans and sources of the dependencies (deny.toml).
deny:
	@$(CARGO) deny --version >/dev/null 2>&1 || \
	    { echo "make deny needs cargo-deny: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny --locked check licenses bans sources

# The minimum Rust version that Cargo.toml states compiles everything.
msrv:
	@$(CARGO) +$(MSRV) --version >/dev/null 2>&1 || \
	    { echo "make msrv needs Rust $(MSRV): rustup toolchain install $(MSRV) --profile minimal" >&2; exit 1; }
	$(CARGO) +$(MSRV) check --workspace --all-targets --locked --quiet --target-dir $(TARGET)/msrv

# Tests of the pure crates under Miri, which interprets them and finds undefined behaviour in what they use.
# Left out is what takes minutes there: whole trials, statistics, the machine, and most of the inputs of
# properties.
MIRI = PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked --lib \
    --quiet --target-dir $(TARGET)/miri

miri:
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || \
	    { echo "make miri needs rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	$(MIRI) -p sextant-dns64 -- --skip the_share_of_aaaa
	$(MIRI) -p sextant-engine -- matcher:: question:: search::
	$(MIRI) -p sextant-record -- number:: random:: standing::
	$(MIRI) -p dns64d-core -- buckets:: cookies:: domains:: ede:: ids:: inflight:: screen:: \
	    --skip a_flood_from_many_networks --skip each_fault_has_its_rcode

# Each target for so long; the program in the kernel (xdp_answer) as root. Inputs that crash stay in
# fuzz/artifacts.
FUZZ_TARGETS ?= answer capture config control cost dns64d evidence exchange http3_session https_request \
    https_session import lane records replay sessions xdp_answer zone

fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || \
	    { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz (and a C++ compiler)" >&2; exit 1; }
	for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/corpus/$$target && \
	    $(CARGO) fuzz run --fuzz-dir fuzz -s none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	        -max_total_time=$(FUZZ_SECONDS) -max_len=$$([ $$target = xdp_answer ] && echo 1514 || echo 4096) \
	        -timeout=10 -print_final_stats=1 || exit 1; \
	done
