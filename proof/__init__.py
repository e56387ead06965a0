"""What `make proof` runs beyond the tests: planted bugs, killed servers, mutated requests. README.md says how."""
