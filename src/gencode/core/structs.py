"""A type-checked `replace` for records: msgspec's takes any name and type.

Every Struct has a `__replace__` whose parameters are its fields, as pyright knows it from Python 3.13 on.
"""

from typing import TYPE_CHECKING, Never, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _R_co = TypeVar("_R_co", covariant=True)

    class _Replaceable(Protocol[_P, _R_co]):
        def __replace__(self, /, *args: _P.args, **changes: _P.kwargs) -> _R_co: ...

    @overload
    def replace(record: _Replaceable[_P, _R_co], /, *args: _P.args, **changes: _P.kwargs) -> _R_co: ...
    @overload
    def replace(record: _R, /, **changes: Never) -> _R: ...  # with it, members of a union are checked alone
    def replace(record: object, /, *args: object, **changes: object) -> object:
        """The same record with other values in some of its fields."""

else:
    from msgspec.structs import replace as replace
