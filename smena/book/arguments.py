"""Check an actor's arguments against its annotations, on both sides of the wire.

The sender turns them into JSON values by the same annotations that the worker reads them with, and
proves there and then that the worker's check will pass. A parameter without annotation takes any JSON value.

One pydantic validator is built for the whole parameter list when the actor is declared. It calls a
function that only hands its arguments back, so a check costs one call into pydantic's core. Plain values that
are of the declared types to the letter need none: after an idle moment that call is 30 µs of caches gone cold.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic_core import ArgsKwargs, CoreConfig, PydanticSerializationError, SchemaSerializer, ValidationError

from smena.book import values
from smena.errors import InvalidArguments, Misdeclared, Permanent

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_MAX_FINDINGS: Final = 5
_MAX_PART: Final = 64
"""Characters of one part of a path: it may be a key of the sender's."""
_FIELD: Final = re.compile(r"\[field_name='([^']*)'")
"""Where pydantic's serializer names the field, before it shows the value."""
_NO_FORM: Final = (PydanticSerializationError, RecursionError, ValueError)
"""What pydantic raises where a value has no JSON form."""
_AS_IT_IS: Final = (int, str, bool, float, type(None))
"""Types whose checked value is its own JSON form."""


class Arguments:
    """An actor's own parameters, without the injected ones."""

    def __init__(self, actor: str, signature: inspect.Signature) -> None:
        self.actor = actor
        self.signature = signature
        self._names = [each.name for each in signature.parameters.values() if each.kind in _POSITIONAL]
        self._exact = _exact_types(signature)
        try:
            self._check = TypeAdapter(_echo(signature)).validator.validate_python
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
            reason = str(error).splitlines()[0]
            raise Misdeclared(f"a parameter's annotation cannot be checked: {reason}", actor=actor) from error

    def accept(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Return the arguments checked, converted and with defaults filled in, or raise `InvalidArguments`."""
        if self._is_exact(args, kwargs):
            return args, kwargs
        try:
            return self._check(ArgsKwargs(args, kwargs))  # type: ignore[no-any-return]  # what `_echo` returns
        except ValidationError as error:
            # Its own text holds the values, which belong in no log: it must not be seen as the cause.
            raise InvalidArguments(_told(error, self._path), actor=self.actor) from None

    def travelling(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Return the given arguments as JSON values that `accept` takes; defaults stay the worker's own.

        Raises `InvalidArguments`, or `Unsendable` for what cannot travel.
        """
        if self._is_exact(args, kwargs):
            for place, value in enumerate(args):
                values.check(value, self._names[place])
            return args, kwargs
        checked_args, checked_kwargs = self.accept(args, kwargs)
        sent_args = tuple(self._dump(i, value) for i, value in enumerate(checked_args[: len(args)]))
        sent_kwargs = {name: self._dump(name, checked_kwargs[name]) for name in kwargs}
        if self._forms.any_converted:
            self.accept(sent_args, sent_kwargs)
        return sent_args, sent_kwargs

    def _is_exact(self, args: Args, kwargs: Kwargs) -> bool:
        return not kwargs and tuple(map(type, args)) == self._exact

    def _dump(self, where: int | str, value: Any) -> Any:
        path = self._path(where)
        values.check(path, "a name")
        form = self._forms.of(where)
        try:
            sent = form.json(value)
        except _NO_FORM as error:
            # As in `accept`: the error's own text holds values.
            raise self._refusal(form, value, path, error) from None
        values.check(sent, path)
        return sent

    def _refusal(self, form: _Form, value: Any, path: str, error: Exception) -> Permanent:
        """Return what to raise for a value without JSON form, or with parts of other types than it declares.

        A dataclass's field, or a model that was made with `model_construct`, may hold anything.
        """
        try:
            misfit = form.misfit(value)
        except _NO_FORM:
            return values.no_json_form(value, path, error)
        field = _FIELD.search(str(error))
        holder = f"its field {field[1][:_MAX_PART]}" if field else "it"
        told = f"{path}: {holder} holds a value that its annotation does not declare"
        if misfit is not None:
            told = _told(misfit, lambda part: f"{path}.{part}")
        return InvalidArguments(told, actor=self.actor)

    @cached_property
    def _forms(self) -> _Forms:
        return _Forms(self.signature)

    def _path(self, where: int | str) -> str:
        if isinstance(where, str):
            return where
        return self._names[where] if where < len(self._names) else f"argument {where + 1}"


def _told(error: ValidationError, root: Callable[[int | str], str]) -> str:
    """Say what does not fit, by path, without showing any value; ``root`` names the first step of a path."""
    findings = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        ".".join(
            [*(root(step) for step in finding["loc"][:1]), *(str(step)[:_MAX_PART] for step in finding["loc"][1:])]
        )
        + f": {finding['msg']}"
        for finding in findings[:_MAX_FINDINGS]
    ]
    more = len(findings) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _exact_types(signature: inspect.Signature) -> tuple[Any, ...] | None:
    """Return the type of each parameter, if all are positional and of types that need no conversion; else None."""
    types = tuple(type(None) if each.annotation is None else each.annotation for each in signature.parameters.values())
    kinds = {each.kind for each in signature.parameters.values()}
    is_plain = all(any(annotation is kind for kind in _AS_IT_IS) for annotation in types)
    return types if is_plain and kinds.issubset(_POSITIONAL) else None


def _echo(signature: inspect.Signature) -> Any:
    """Return a function of this signature that returns its arguments as they were bound."""

    def echo(*args: Any, **kwargs: Any) -> tuple[Args, Kwargs]:
        return args, kwargs

    echo.__signature__ = signature  # type: ignore[attr-defined]
    echo.__annotations__ = {
        each.name: each.annotation for each in signature.parameters.values() if each.annotation is not each.empty
    }
    return echo


_KEEP_NAN: Final = CoreConfig(ser_json_inf_nan="constants")
"""Pydantic turns a NaN below `Any` into null unless the outermost config says otherwise; it must be seen here."""


class _Form:
    """How values of one annotation are turned into JSON values."""

    def __init__(self, annotation: Any) -> None:
        self.converts = not any(annotation is kind for kind in _AS_IT_IS)
        self._annotation = annotation
        self._serializer = SchemaSerializer(TypeAdapter(annotation).core_schema, _KEEP_NAN) if self.converts else None

    def json(self, value: Any) -> Any:
        """Return the JSON form, or raise one of `_NO_FORM`, also for a part of another type than declared."""
        return self._dump(value, "error")

    def misfit(self, value: Any) -> ValidationError | None:
        """Return what in ``value`` does not fit; raises one of `_NO_FORM` when it has no JSON form at all."""
        try:
            TypeAdapter(self._annotation).validator.validate_python(self._dump(value, "none"))
        except ValidationError as error:
            return error
        return None

    def _dump(self, value: Any, warnings: Literal["none", "error"]) -> Any:
        if self._serializer is None:
            return value
        return self._serializer.to_python(value, mode="json", by_alias=True, warnings=warnings)


class _Forms:
    """The form of each parameter, by position and by name."""

    def __init__(self, signature: inspect.Signature) -> None:
        self._by_name: dict[str, _Form] = {}
        self._by_position: list[_Form] = []
        self._other_args = self._other_kwargs = _Form(Any)
        for each in signature.parameters.values():
            self._add(each)
        known = (*self._by_position, *self._by_name.values(), self._other_args, self._other_kwargs)
        self.any_converted = any(form.converts for form in known)

    def _add(self, parameter: inspect.Parameter) -> None:
        form = _Form(Any if parameter.annotation is parameter.empty else parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            self._other_args = form
        elif parameter.kind is parameter.VAR_KEYWORD:
            self._other_kwargs = form
        else:
            self._by_name[parameter.name] = form
            if parameter.kind in _POSITIONAL:
                self._by_position.append(form)

    def of(self, where: int | str) -> _Form:
        if isinstance(where, str):
            return self._by_name.get(where, self._other_kwargs)
        return self._by_position[where] if where < len(self._by_position) else self._other_args
