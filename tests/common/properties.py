"""How properties are run: the same examples on every run, so that a red build is a change and not bad luck.

`MILLPOND_EXAMPLES=20` tries twenty times as many, and others each time. What it finds deserves a test of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings

E = TypeVar("E", bound=Exception)
_TIMES = int(os.environ.get("MILLPOND_EXAMPLES", "1"))


def examples(number: int, *, steps: int = 50) -> settings:
    """Settings for `number` examples; `steps` is the length of a stateful run."""
    return settings(
        max_examples=number * _TIMES,
        stateful_step_count=steps,
        derandomize=_TIMES == 1,
        # Nothing remembered from an earlier run, or from another process of this one.
        database=None,
        # Other tests run at the same time: how long an example takes says nothing.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )


def attempt(refusal: type[E], call: Callable[..., Any], *args: Any) -> tuple[Any, E | None]:
    """(what the call gave, None), or (None, how it refused). An error of any other kind is a failure."""
    try:
        return call(*args), None
    except refusal as error:
        return None, error
