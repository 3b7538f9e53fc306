# The commands of this project; "make" alone builds bin/sealer.
# SHARED is where the real cases for tests lie; what needs them says so when they are absent.
SHARED ?= ../shared
export SHARED

GO ?= go
export CGO_ENABLED ?= 0
TIMES ?= 1

# bench-* and the like stand with the scripts that they run.
.PHONY: pages release release-test static crash crashtest crash-short race-store build programs reproduce test check unit conformance demo real corpus fuzz bench bench-build bench-mirror bench-resume clean reference mutate test-policy test-cluster test-cluster-run test-cluster-large test-sohost bench-run bench-travel

build: ## build bin/sealer
	$(GO) build -trimpath -ldflags "-s -w" -o bin/sealer ./cmd/sealer

test: check unit hostile conformance demo reproduce real corpus crash-short release-test pages ## everything that CI runs

check: ## formatting, vet, shell scripts
	@bash .ci/check

unit: ## all Go tests, with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

programs: build ## also the upstream and the witness that the demos use
	$(GO) build -o bin/upstream ./registry/registrytest/upstream
	$(GO) build -o bin/fetch ./registry/registrytest/fetch
	$(GO) build -o bin/api ./cluster/clustertest/programs/api
	$(GO) build -o bin/age-keygen filippo.io/age/cmd/age-keygen

demo: programs ## the main job, end to end, with no network
	@bash examples/demo.sh

pages: programs ## the commands of README and docs, word by word, but those that want machines of a cluster (root)
	@bash examples/pages.sh

reproduce: programs ## the same image from two clones, and by the sealer of the commit before (BASE=COMMIT for another)
	@bash build/reproduce.sh
	@bash build/reproduce-base.sh "$(or $(BASE),HEAD~1)"

real: programs ## one ClusterImage out of real charts and manifests
	@bash examples/real.sh

corpus: build ## discovery on real charts and manifests, beside what other finders reach
	@bash imagelist/corpus.sh

conformance: ## the OCI distribution conformance suite against "registry serve"
	cd registry/conformance && $(GO) test -count=1 ./...

# Kyverno's engines and a real cluster take 10 to 20 minutes to compile where
# that was never done: CI runs test-policy once Go's build cache has them (see
# .ci/run), .ci/nightly always, and test-cluster with both versions of Kyverno.
test-policy: ## the redirect policies in the engines of Kyverno and the API server
	@bash redirect/policytest/run

test-cluster: ## the redirect in a real API server, with a real Kyverno (KYVERNO=v1.13.6 or v1.19.1); needs root
	@bash redirect/clustertest/run

test-cluster-run: ## a real Kubernetes of one master and one worker on test machines (root; programs from $SHARED, the cache, or 10 minutes of compiling)
	@bash cluster/clustertest/run small

test-cluster-large: ## the same with three masters and two workers, and on a machine without systemd
	@bash cluster/clustertest/run large

.PHONY: crash-run test-cluster-standin test-cluster-cut test-cluster-faults
test-cluster-standin: ## sealer run on 20 test machines over SSH, with stand-ins for Kubernetes (root; seconds)
	@bash cluster/clustertest/standin/run twenty

test-cluster-cut: ## the same on five machines whose sealer, power, cables and disks fail in the middle of a run (root; 20 minutes)
	@bash cluster/clustertest/standin/run cut

test-cluster-faults: ## sealer run with bad input, and on strange machines, on three such machines (root; two minutes)
	@bash cluster/clustertest/standin/run faults
	@bash cluster/clustertest/standin/run sites

crash-run: ## kill -9 at every record of the journal: engine, machine, both (CRASHES=40 for fewer; all take half an hour)
	SEALER_CRASH=$(or $(CRASHES),all) $(GO) test ./cmd/sealer -count=1 -run 'TestScripts/run-crash$$' -v -timeout 120m

test-sohost: ## sealer-sohost opens .so plugins of sealer 0.8 (needs a C compiler)
	cd cluster/extend/sohost && CGO_ENABLED=1 $(GO) test -count=1 ./...

bench-run: ## a cluster by sealer beside the same one by hand; what second runs send; 1,000 machines (SIZE=500 for a larger image; 20 minutes)
	@bash cluster/clustertest/run bench
	@bash cluster/clustertest/standin/run spread
	$(GO) test ./cmd/sealer -run '^$$' -bench 'Machines$$/machines=1000$$' -benchtime 1x -timeout 30m

static: ## staticcheck and govulncheck, where they and their data can be had
	@bash .ci/static

.PHONY: browser
browser: ## the page of sealer report in Chromium, headless (SEALER_AXE=axe.min.js for its accessibility, too)
	SEALER_REQUIRE_BROWSER=1 $(GO) test ./report -count=1 -run TestBrowser -v

fuzz: ## each fuzz target for a while (FUZZTIME, default 30s)
	@bash .ci/fuzz

release: ## the files of a release in dist: archives, packages, inventories, checksums; RELEASE_KEY=FILE signs them
	cd release && $(GO) run . -out ../dist

release-test: ## a release for this machine made twice, its installer and its packages; the action for CI
	cd release && $(GO) vet ./... && $(GO) test -count=1 ./...

reference: ## docs/reference.md out of the commands' help; MAN=DIR writes man pages, too
	$(GO) run ./cmd/sealer/reference -markdown docs/reference.md $(if $(MAN),-man $(MAN))

crashtest: build
	$(GO) build -o bin/crashtest ./store/crashtest

crash: crashtest ## kills, full disks, failing system calls and power cuts: no image is lost (root, strace, mkfs.ext4; TIMES=10 for ten times as many)
	bin/crashtest -sealer bin/sealer -kills $$((200 * $(TIMES))) -full $$((20 * $(TIMES))) -faults $$((60 * $(TIMES))) -cuts $$((20 * $(TIMES)))

crash-short: crashtest ## the same in less than a minute, as CI runs it
	bin/crashtest -sealer bin/sealer -seed 1 -kills 30 -full 6 -faults 20 -cuts 4 -race 10s

.PHONY: hostile
hostile: ## hostile archives, registries, charts and Kubefiles through the real commands; prints the table of docs/security.md (UPDATE_DOCS=1 writes it there)
	$(GO) test ./cmd/sealer -count=1 -run 'TestHostile$$' -v

race-store: crashtest ## 8 processes on one store for 3 minutes
	bin/crashtest -sealer bin/sealer -race $$((3 * $(TIMES)))m

mutate: ## mutants, which a package's own tests must kill (PACKAGES="a b", MUTATE="-only a/x.go,a/y.go:12" for some places)
	nice -n 19 $(GO) run ./.ci/mutate $(MUTATE) $(or $(PACKAGES),registry/ref registry/tree registry/platform kubefile parser image rootfs layer registry/mirror imagelist store)

bench-build: ## builds beside git status and tar | zstd (SCALE=10 for a tenth; 21 GB and 20 minutes as it is)
	@bash build/bench.sh

bench-resume: ## a blob of 1 GiB over a link that is cut every 100 MB, the build being killed each time (1.1 GB of disk)
	go test ./cmd/sealer -run '^$$' -bench 'Resume$$' -benchtime 1x

bench-mirror: ## mirroring beside the floor and the peers, on loopback and at 30 ms (root; takes long)
	@bash registry/mirror/bench.sh

bench-travel: programs ## requests, bytes, memory, disk and times of pushes, pulls, saves and loads (1 to 2,750 images; 20 minutes; FIGURES=/PATH/FILE for lines of JSON)
	$(GO) test ./transfer -run '^$$' -bench 'Travel|Blobs' -benchtime 1x
	SEALER=$(CURDIR)/bin/sealer $(GO) test ./cmd/sealer -run '^$$' -bench 'Memory' -benchtime 1x -timeout 60m
	python3 transfer/bench.py bin/sealer bin/upstream

.PHONY: bench-blobs
bench-blobs: programs ## the same of an image with 60,000 blobs, which a registry's manifest does not take (an hour)
	SEALER=$(CURDIR)/bin/sealer $(GO) test ./cmd/sealer -run '^$$' -bench 'SixtyThousand' -benchtime 1x -timeout 120m

.PHONY: clients
clients: ## cosign, crane, regctl, oras and skopeo with our images and signatures, between three registries; readers of SBOMs (installs what it needs)
	@bash .ci/clients/run

.PHONY: bench-all
bench-all: ## all of these but the longest, how cost grows, and docs/performance.md out of it (30 minutes on two idle processors; ONLY=version,serve for some parts, QUICK=1 to try it)
	$(GO) run ./perf $(if $(ONLY),-only $(ONLY)) $(if $(QUICK),-quick)

clean:
	rm -rf bin
