"""A step of your own: adds up a run's invoice."""

from millpond import StepFailed, step


@step("ADD_UP")
def add_up(context):
    lines = context.inputs.get("lines", [])
    if not lines:
        raise StepFailed("EMPTY_INVOICE", "inputs.lines holds nothing to add up")
    return {"total": sum(line["price"] * line["count"] for line in lines)}
