# Each target runs the script of the same name; without make, run scripts/demo.sh and so on.
# Flags: make demo ARGS=--keep, make test-fast ARGS="-k election", make simulate SEEDS=10000,
# make soak MINUTES=60, make matrix CELLS=spark-4.1, make mutants ARGS="--random 60 --seed 7"

export SEEDS START MINUTES SITUATIONS CELLS

TARGETS := demo test test-fast matrix simulate explore mutants soak bench lint audit docs dist proto lock
.PHONY: $(TARGETS)

$(TARGETS):
	@scripts/$@.sh $(ARGS)
