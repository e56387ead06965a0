"""Flow runs: documents whose steps are claimed once each, worked on, and finalised. `docs/flow.md` is the guide."""
