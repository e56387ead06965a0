"""The step types Millpond brings along, each an ordinary user of `millpond.flow.step`."""
