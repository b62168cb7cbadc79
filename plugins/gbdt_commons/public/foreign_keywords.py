"""Methods that refuse, by name and with a way out, keywords that users bring from another library."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_NOT_GIVEN = (None, "auto")
"""Defaults of LightGBM's and XGBoost's methods, which ask for nothing."""

_BY_NAME = "pass the others by name, as in sample_weight=..."


def refuses_keywords(
    ways_out: Mapping[str, str],
    error: type[Exception],
    given: type | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a method that names the keywords of other libraries which it does not have.

    It does so, too, where there are more arguments without names than it takes. A keyword with the other
    library's default, None or "auto", is left out of the call; `defaults` are those that are not None. Names
    that neither the method nor the other libraries have are Python's TypeError, as ever. By keyword,
    `ways_out` has the reason, or the argument to pass instead; keywords that the method has are accepted.
    `error` is raised. `given` is the TypedDict of the method's ``**keywords``: the signature shows them one
    by one, and the method is called with all of them.
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(method)
        parameters = list(signature.parameters.values())
        known = {} if given is None else _parameters_of(given, defaults)
        if known:
            parameters = [*(one for one in parameters if one.kind is not one.VAR_KEYWORD), *known.values()]
        accepted = {parameter.name for parameter in parameters}
        foreign = ways_out.keys() - accepted
        in_order = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]

        # No local name is `self`: the frame is not taken for a method of another object.
        @functools.wraps(method)
        def checked(*args: P.args, **keywords: P.kwargs) -> R:
            if len(args) > len(in_order):
                raise error(
                    f"{method.__name__} takes {' and '.join(in_order[1:])} by position, got {len(args) - 1} "
                    f"arguments: {ways_out.get('y', _BY_NAME)}"
                )
            for name in [name for name in keywords if name in foreign]:
                value = keywords.pop(name)
                if not (value is None or (isinstance(value, str) and value in _NOT_GIVEN)):
                    raise error(f"{name} is not an argument of {method.__name__}: {ways_out[name]}")
            for name in keywords.keys() - accepted if known else ():
                raise TypeError(f"{method.__qualname__}() got an unexpected keyword argument {name!r}")
            keywords.update({name: one.default for name, one in known.items() if name not in keywords})
            return method(*args, **keywords)

        checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return checked

    return decorate


def _parameters_of(given: type, defaults: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """Parameters, by keyword alone, for the keys of a TypedDict."""
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in inspect.get_annotations(given).items()
    }
