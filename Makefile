# The commands of this project; "make" alone builds bin/sealer.
# SHARED is where the real cases for tests lie; what needs them says so when they are absent.
SHARED ?= ../shared
export SHARED

GO ?= go
export CGO_ENABLED ?= 0

.PHONY: build test check unit demo real fuzz bench clean

build: ## build bin/sealer
	$(GO) build -trimpath -o bin/sealer ./cmd/sealer

test: check unit demo real ## everything that CI runs

check: ## formatting, vet, shell scripts
	@bash .ci/check

unit: ## all Go tests, with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

demo: build ## the main job, end to end, with no network
	@bash .ci/demo

real: build ## one ClusterImage out of real charts and manifests
	@bash .ci/real

fuzz: ## each fuzz target for a while (FUZZTIME, default 30s)
	@bash .ci/fuzz

clean:
	rm -rf bin
