# Each target is a script of the same name, for machines without make: scripts/demo.sh and so on.
# Flags: make demo ARGS=--keep, make test-fast ARGS="-k election"

.PHONY: demo test test-fast lint proto lock

demo test test-fast lint proto lock:
	@scripts/$@.sh $(ARGS)
