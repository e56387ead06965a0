"""Checks the methods of a view: that Millpond can call each, with what it passes, and gets a value back. Pure.

Called when a view is loaded. The signatures are those of `View` and its kinds, so a new method is checked at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from millpond.core.declared_names import METHODS_OF
from millpond.core.view import View


def method_faults(own: type[View], kind: type[View]) -> Iterator[str]:
    """What is wrong with the methods that a view's class overrides."""
    for name in sorted(METHODS_OF[kind]):
        ours = getattr(kind, name)
        theirs = inspect.getattr_static(own, name)
        if theirs is not ours:
            fault = _fault(own, name, ours, theirs)
            if fault is not None:
                yield fault


def _fault(own: type[View], name: str, ours: Callable[..., Any], theirs: Any) -> str | None:
    parameters = list(inspect.signature(ours).parameters)[1:]
    wanted = f"def {name}(self, {', '.join(parameters)})"
    # Bound as it would be to an object of the class; a property is not evaluated.
    method = theirs if isinstance(theirs, property) or not hasattr(theirs, "__get__") else theirs.__get__(own, own)
    if not callable(method):
        what = "a property" if isinstance(theirs, property) else type(theirs).__name__
        return f"{name} must be a method, {wanted}, not {what}"
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        return f"{name}() must not be async: a view does no I/O. Write {wanted}"
    if inspect.isgeneratorfunction(method):
        return f"{name}() must return its value, not yield it"
    return None if _accepts(method, parameters) else f"{name}() must be {wanted}, not {_written(name, theirs)}"


def _accepts(method: Callable[..., Any], parameters: list[str]) -> bool:
    """Whether the method can be called with these, and does not have them in another order."""
    try:
        # A decorator may pass other arguments on, so only its own count.
        given = inspect.signature(method, follow_wrapped=False)
    except (TypeError, ValueError):
        # A method without `self`, or one that is not written in Python: then its arguments are unknown.
        return not inspect.ismethod(method)
    try:
        given.bind(*parameters)
    except TypeError:
        return False
    return all(parameters.index(name) == at for at, name in enumerate(given.parameters) if name in parameters)


def _written(name: str, theirs: Any) -> str:
    """The signature as it is written, without types."""
    given = inspect.signature(getattr(theirs, "__func__", theirs), follow_wrapped=False)
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in given.parameters.values()]
    decorator = f"@{type(theirs).__name__} " if isinstance(theirs, staticmethod | classmethod) else ""
    return f"{decorator}def {name}{inspect.Signature(plain)}"
