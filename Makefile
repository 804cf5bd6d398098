# `make` lists what there is. Every target installs what it needs and is missing, and says so.

CARGO ?= cargo
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

DEMO := corpus/policed-1500kbit/policed-1500kbit.pcap.xz
SHAPED := corpus/shaped-1500kbit/shaped-1500kbit.pcap.xz
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The program as the tests build it too, which takes a third of the time of a release.
TIDEGATE := $(TARGET)/debug/tidegate

# What tests and lints are built with beside the defaults. The gate on DPDK: FEATURES=tidegate/dpdk (`packaging/setup dpdk` installs what that needs).
FEATURES ?=
WITH := $(if $(FEATURES),--features $(FEATURES))

.PHONY: help demo program build test test-realtime old-kernels bench study fuzz lint deny docs docs-check book wasm web web-check web-bench python-check python-bench \
	study-browsers package test-package library reproduce clean

help:
	@echo 'To see what Tidegate does:'
	@echo '  make demo           builds it quickly and looks for policers in two real captures'
	@echo
	@echo 'To use it:'
	@echo '  make build          builds the optimised program, target/release/tidegate'
	@echo '  make package        builds a Debian package, in target/package'
	@echo '  make library        builds the pacing library for C, and installs it under PREFIX (/usr/local)'
	@echo '  make book           builds the documentation as a book, in target/book'
	@echo '  make web            builds the page for the browser; a program that is built afterwards has it in it'
	@echo
	@echo 'To change it:'
	@echo '  make test           runs every test but those that take long'
	@echo '  make test-realtime  runs the tests that take long: seconds of traffic through the kernel'
	@echo '  make test-package   installs, updates and removes the Debian package in a clean root (as root)'
	@echo '  make reproduce      builds the packages twice, and fails unless both are the same bytes'
	@echo '  make lint           checks format and lints'
	@echo '  make wasm           checks that the lab and the reader of captures compile for WebAssembly'
	@echo '  make web-check      checks types, style and units of the page'
	@echo '  make python-check   builds the Python package, checks its types, and runs its tests'
	@echo '  make deny           checks licences, sources and duplicates of dependencies'
	@echo '  make docs           builds the API documentation and writes docs/reference/columns.md'
	@echo '  make fuzz           feeds damaged input to every reader, FUZZ_SECONDS (60) each'
	@echo '  make old-kernels    runs the gate under an older kernel, in a virtual machine (as root)'
	@echo '  .ci/run             runs all that must pass before a change goes in'
	@echo
	@echo 'To measure it:'
	@echo '  make bench          measures speed and memory, beside other tools'
	@echo '  make web-bench      measures the page in Chromium, beside tidegate detect'
	@echo '  make python-bench   measures the Python package and Spark, beside tidegate detect and other packages'
	@echo '  make study          repeats the tables of the papers'
	@echo '  make study-browsers plays videos and loads pages in Chromium behind limiters (as root; 90 minutes; SMOKE=1: a minute)'
	@echo
	@echo '  make clean          removes everything that was built'
	@echo
	@echo 'TIDEGATE_TRACES names the folder of the published lab captures. Tests and studies that need'
	@echo 'them are skipped without it.'

build:
	@packaging/setup build
	@echo '== building the optimised program (the first time takes minutes)'
	$(CARGO) build --release --locked --package tidegate

program:
	@packaging/setup build
	@echo '== building tidegate, without the optimisations of a release (about three minutes the first time)'
	$(CARGO) build --locked --package tidegate

demo: program
	@echo
	@echo '== a capture of five transfers that a router policed to 1.5 Mbit/s:'
	@echo '   $(DEMO)'
	$(TIDEGATE) detect $(DEMO)
	@echo
	@echo '== the same server behind a shaper of 1.5 Mbit/s, which delays where a policer drops:'
	$(TIDEGATE) detect $(SHAPED)
	@echo
	@echo '== the story of the first transfer, and its picture:'
	$(TIDEGATE) explain $(DEMO) --flow 0 --segment 0 --svg $(TARGET)/demo.svg
	@echo
	@echo '== done. The picture is $(TARGET)/demo.svg, for any web browser. To go on:'
	@echo '   $(TIDEGATE) detect --help'
	@echo '   make build    builds the optimised program, which is several times as fast'

test:
	@packaging/setup build
	@packaging/setup test
	@echo '== running every test of the workspace but those that take long (make test-realtime)'
	@$(traces_note)
	@CARGO='$(CARGO)' packaging/run-tests quick --workspace $(WITH)
	@packaging/test-page
	@$(traces_note)

# Tests that are marked by #[ignore] since they take seconds of real time each: traffic through the kernel, between namespaces.
test-realtime:
	@packaging/setup build
	@packaging/setup test
	@echo '== running the tests that take long'
	@CARGO='$(CARGO)' packaging/run-tests realtime --workspace --tests $(WITH)

old-kernels:
	@packaging/setup build
	@packaging/setup kernels
	@packaging/setup test
	packaging/old-kernels

define traces_note
if [ -n "$$TIDEGATE_TRACES" ]; then \
	echo "== the lab captures are in $$TIDEGATE_TRACES"; \
else \
	echo '== TIDEGATE_TRACES is not set: tests that need the lab captures are SKIPPED'; \
fi
endef

bench:
	@packaging/setup bench
	@echo '== measuring, beside tcptrace and tshark on the same capture'
	$(CARGO) run --release --locked --package tidegate-bench
	@echo '== measuring what limiters cost a packet'
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
		$(CARGO) run --release --locked --package tidegate-bench -- limiters
	@echo '== measuring the video server beside nginx'
	$(CARGO) build --release --locked --package tidegate
	$(CARGO) run --release --locked --package tidegate-bench -- server
	@if [ "$$(id -u)" -eq 0 ]; then \
		echo "== counting what Trickle and nginx retransmit (four minutes)"; \
		$(CARGO) run --release --locked --package tidegate-studies --bin trickle-kernel -- --viewers --alone; \
		echo "== measuring the gate's programs in the kernel"; \
		$(CARGO) run --release --locked --package tidegate-gate --example bench; \
		echo "== measuring the sampler beside tcpdump, on a veth"; \
		$(CARGO) run --release --locked --package tidegate-sample --example bench; \
		echo "== measuring the clamp in the kernel, on ten thousand sockets"; \
		$(CARGO) test --release --locked --package tidegate-pace --test kernel -- --ignored --nocapture ten_thousand; \
	else \
		echo "== retransmissions, the gate's programs, the sampler and the clamp in the kernel: SKIPPED, it needs root"; \
	fi

study:
	@packaging/setup build
	@echo '== agreement with the published detector on its own captures'
	$(CARGO) run --release --locked --package tidegate-studies --bin flach16-agreement
	@echo '== accuracy by class, as in Table 3 of the paper'
	$(CARGO) run --release --locked --package tidegate-studies --bin flach16-table3
	@echo '== verdicts by what they rest on, with intervals of rate and depth'
	$(CARGO) run --release --locked --package tidegate-studies --bin verdict
	@echo '== accuracy of rates, capacities and round-trip times'
	$(CARGO) run --release --locked --package tidegate-studies --bin annotator-accuracy
	@echo '== sizes of phantom queues, as in figure 2 of BC-PQP'
	$(CARGO) run --release --locked --package tidegate-studies --bin bcpqp-figure2 -- --check
	@echo '== sharing before a second bottleneck, as in figure 3 of BC-PQP'
	$(CARGO) run --release --locked --package tidegate-studies --bin bcpqp-figure3 -- --check
	@echo '== rate enforcement, as in figure 4 of the BC-PQP paper (minutes)'
	$(CARGO) run --release --locked --package tidegate-studies --bin bcpqp-figure4 -- --check
	@echo '== policy enforcement, as in figure 6 of the BC-PQP paper (minutes)'
	$(CARGO) run --release --locked --package tidegate-studies --bin bcpqp-figure6 -- --check
	@echo '== videos and web pages behind four limiters, as in figures 7 and 9 of BC-PQP (minutes)'
	$(CARGO) run --release --locked --package tidegate-studies --bin bcpqp-figure7 -- --check
	@echo '== playback behind policers and shapers, as in tables 5 and 6 and figure 14 of the policing paper'
	$(CARGO) run --release --locked --package tidegate-studies --bin flach16-playback -- --check
	@echo '== policer, shaper or phantom queues for four streams, and UDP beside them'
	$(CARGO) run --release --locked --package tidegate-studies --bin policer-or-shaper -- --check
	@echo '== bursts and mean rates with two forms of burst control (minutes)'
	$(CARGO) run --release --locked --package tidegate-studies --bin burst-control -- --check
	@echo '== servers behind a policer: plain, rate-limited, paced, and their recovery'
	$(CARGO) run --release --locked --package tidegate-studies --bin flach16-figure13 -- --check
	@echo '== what advice on limits predicts, and what comes of it'
	$(CARGO) run --release --locked --package tidegate-studies --bin advise -- --check
	@echo '== which congestion control wins behind which bottleneck'
	$(CARGO) run --release --locked --package tidegate-studies --bin who-wins -- --check
	@echo '== the gate beside what the kernel limits with (in real time, as root; 10 minutes)'
	@packaging/setup test
	$(CARGO) build --release --locked --package tidegate
	@if [ "$$(id -u)" -eq 0 ]; then \
		$(CARGO) run --release --locked --package tidegate-studies --bin gate-beside-the-kernel && \
		echo '== two forms of burst control, with the kernel'"'"'s TCP over the gate (in real time; half an hour)' && \
		$(CARGO) run --release --locked --package tidegate-studies --bin burst-control -- --kernel; \
	else \
		echo '== SKIPPED: needs root'; \
	fi
	@echo '== Table 3 at its full grid, simulated'
	$(CARGO) run --release --locked --package tidegate-studies --bin flach16-table3-lab -- --check
	@echo '== video throttled by blocks and by Trickle, as in the tables and figures of its paper'
	$(CARGO) run --release --locked --package tidegate-studies --bin trickle-lab -- --check
	@if [ "$$(id -u)" = 0 ]; then \
		echo '== the same with the kernel'"'"'s TCP, in real time (nine minutes)'; \
		packaging/setup bench && \
		$(CARGO) build --release --locked --package tidegate && \
		$(CARGO) run --release --locked --package tidegate-studies --bin trickle-kernel -- --check && \
		$(CARGO) run --release --locked --package tidegate-studies --bin trickle-kernel -- --viewers --alone --check; \
	else \
		echo '== video over the kernel'"'"'s TCP: SKIPPED, it needs root'; \
	fi

	@echo '== reports of networks beside the truth of the lab (minutes)'
	@$(MAKE) --no-print-directory python-check
	TIDEGATE_PROGRAM="$(abspath $(TIDEGATE))" "$(TARGET)/python/bin/python" studies/flach16-networks/networks.py

# In real time. Debian's packages with the sites are fetched once, into target/browsers.
study-browsers: program
	@packaging/setup browsers
	@echo '== videos and web pages in Chromium behind four limiters, beside the models of the lab'
	TIDEGATE_PROGRAM="$(abspath $(TIDEGATE))" node studies/browsers/main.mjs $(if $(SMOKE),--smoke)

fuzz:
	@packaging/setup build
	@packaging/setup fuzz
	fuzz/run

lint:
	@packaging/setup build
	@packaging/setup lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked $(WITH) -- -D warnings

docs: program
	@echo '== API documentation, to $(TARGET)/doc'
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	@echo '== docs/reference/columns.md, from the program'
	@mkdir -p docs/reference
	@$(columns) >docs/reference/columns.md

# Fails if docs/reference/columns.md is not what the program would write.
docs-check: program
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	@mkdir -p $(TARGET)
	@$(columns) >$(TARGET)/columns.md
	@if ! diff -u docs/reference/columns.md $(TARGET)/columns.md; then \
		echo 'docs/reference/columns.md is out of date: make docs writes it'; exit 1; \
	fi

# Each place where the package is built has an environment, so that checks do not change the user's Python.
python-check: program
	@packaging/setup python
	@echo '== the Python package (the first time takes minutes)'
	TIDEGATE_PROGRAM="$(abspath $(TIDEGATE))" packaging/python "$(TARGET)/python"

python-bench: build
	@packaging/setup python
	@packaging/setup bench
	packaging/python "$(TARGET)/python" install
	"$(TARGET)/python/bin/pip" install --quiet --disable-pip-version-check nfstream pyshark
	@echo '== measuring the Python package, and Spark on two cores'
	TIDEGATE_PROGRAM="$(abspath $(TARGET)/release/tidegate)" "$(TARGET)/python/bin/python" bench/python.py --record

book:
	@packaging/setup book
	packaging/book "$(TARGET)/book"
	@echo '== the book is $(TARGET)/book/index.html'

# What pages in a browser will run.
wasm:
	@packaging/setup build
	@packaging/setup wasm
	packaging/wasm check --locked --no-default-features --package tidegate-lab --package tidegate-limiter --package tidegate-notation --package tidegate-story --package tidegate-trace

web:
	@packaging/setup build
	@packaging/setup web
	@echo '== building the page: its engine as WebAssembly, and crates/web/page/dist (minutes the first time)'
	packaging/page

# Types include those of the engine, so the page is built first.
web-check: web
	cd crates/web/page && npm run --silent check && npm run --silent unit

web-bench: web build
	@packaging/setup browser
	@echo '== measuring the page in Chromium, beside tidegate detect on the same capture'
	$(CARGO) run --release --locked --package tidegate-bench -- page --record $(if $(TIDEGATE_TRACES),,--losing tenth)

# Known vulnerabilities are looked up where their list can be fetched.
deny:
	@packaging/setup deny
	cargo-deny --workspace check licenses bans sources
	@if git ls-remote -q https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then \
		cargo-deny --workspace check advisories; \
	else \
		echo '== github.com cannot be reached: known vulnerabilities were NOT looked up'; \
	fi

package:
	@packaging/setup build
	@packaging/setup web
	@packaging/setup package
	@echo '== building the Debian package (the first time takes minutes)'
	packaging/package "$(TARGET)/package"

PREFIX ?= /usr/local
library:
	@packaging/setup build
	@echo '== building the pacing library for C, and installing it under $(DESTDIR)$(PREFIX)'
	$(CARGO) build --release --locked --package tidegate-pace
	packaging/library "$(PREFIX)" "$(DESTDIR)"

# Two builds of the last commit, in two folders: twice the time of a release.
reproduce:
	@packaging/setup build
	@packaging/setup web
	@packaging/setup package
	packaging/reproduce

test-package: package
	@packaging/setup test-package
	packaging/test-package "$(TARGET)/package"

columns = { \
	echo '<!-- Written by make docs: change src/rows in crates/trace or lab, src/origin.rs in dataset, or src/row.rs and src/shell/rows.rs in testbed, instead. -->'; \
	echo '\# Columns'; \
	echo; \
	echo 'Of the CSV, JSON and Parquet formats. Names and units are stable; new columns come last.'; \
	echo; \
	echo '\#\# tidegate detect: a row is what an endpoint sent in a segment'; \
	echo; \
	$(TIDEGATE) columns --markdown --by segment; \
	echo; \
	echo '\#\# tidegate detect --by flow: a row is what an endpoint sent in a connection'; \
	echo; \
	$(TIDEGATE) columns --markdown --by flow; \
	echo; \
	echo '\#\# tidegate detect --by client: a row is what went to a client, or came from it'; \
	echo; \
	$(TIDEGATE) columns --markdown --by client; \
	echo; \
	echo '\#\# tidegate detect --by packet: a row is a data packet'; \
	echo; \
	$(TIDEGATE) columns --markdown --by packet; \
	echo; \
	echo '\#\# tidegate detect --dataset: columns beside those of segments'; \
	echo; \
	$(TIDEGATE) columns --markdown --by dataset; \
	echo; \
	echo '\#\# tidegate diagnose: a row is one direction of a connection'; \
	echo; \
	$(TIDEGATE) columns --markdown --by pair; \
	for what in point flow window element sample transfer connection kernel; do \
		echo; echo "\#\# tidegate lab: $$what"; echo; \
		$(TIDEGATE) columns --markdown --by lab-$$what; \
	done; \
	for what in window element; do \
		echo; echo "\#\# tidegate shell: $$what"; echo; \
		$(TIDEGATE) columns --markdown --by shell-$$what; \
	done; \
}

clean:
	$(CARGO) clean
	rm -rf crates/web/page/node_modules crates/web/page/wasm crates/web/page/dist/assets crates/web/page/dist/index.html
	rm -rf fuzz/target fuzz/work fuzz/artifacts
