# `make help` lists the goals. Each is a script in scripts/, so that none needs make.
.DEFAULT_GOAL := help
.PHONY: help demo build test lint fmt gen fuzz tsan bench cuda-toolchain cuda-report clean

help: ## list the goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## four PEs on this machine dispatch and combine MoE tokens on every path, checked
	@scripts/demo

build: ## bin/pgas and one binary per example
	@scripts/deps build
	@scripts/build

test: ## everything that this machine can check, with a table at the end
	@scripts/test

lint: ## format, vet, staticcheck, generated files, rules of ARCHITECTURE.md
	@scripts/test gofmt vet staticcheck clang-format generated archtest

fmt: ## rewrite Go and C++ in the format that lint checks
	@scripts/test --fix-format

gen: ## write the generated files again
	go generate ./...

fuzz: ## every fuzz target for 30 s (SECONDS=n for more)
	@scripts/fuzz $(or $(SECONDS),30)

tsan: ## device protocols under ThreadSanitizer, with mutants that must be caught
	@scripts/test tsan

bench: ## latency, bandwidth, message rate, beside yardsticks of the same run
	@scripts/bench

cuda-toolchain: ## bring NVIDIA's compiler into .cache (no GPU needed)
	@scripts/cuda-toolchain

cuda-report: ## write tests/cuda/report.txt again after a wanted change of the fast paths
	@scripts/cuda-toolchain
	PGAS_CUDA_REPORT=update go test -count=1 -run '^TestFastPathReport$$' -v ./tests/cuda

clean: ## remove what was built; the CUDA toolchain and Go's caches stay
	rm -rf bin .cache/test .cache/deps.log .cache/deps.tried
