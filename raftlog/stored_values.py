"""The values of raftlog's own keys in the key-value store, with one bounded decoder for each kind.

A client with the right to write such a key can send any bytes. Leaders reject bytes that are not a
value of the key's kind. A value that is stored anyway, by an earlier leader or a later version,
fails only the call that reads it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raftlog.errors import StoredValueInvalid

NUMBER_MAX = (1 << 63) - 1
NAME_MAX = 249
"""Characters of a name, as of a topic's."""

Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Name = Annotated[str, Field(max_length=NAME_MAX)]

_PROBLEM_SHOWN_MAX = 200


class StoredValue(BaseModel):
    """A value, stored as JSON. A subclass for each kind of key."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    PREFIX: ClassVar[str]
    """What the keys begin with."""
    KIND: ClassVar[str]
    """What errors call the value."""
    BYTES_MAX: ClassVar[int] = 4096
    """No value is longer."""

    v: Annotated[int, Field(ge=1, le=1)] = 1
    """The version of the format."""

    def encode(self) -> bytes:
        return self.model_dump_json().encode()

    @classmethod
    def decode(cls, key: str, value: bytes) -> Self:
        """The value of a key. Raises `StoredValueInvalid`, whatever the bytes are."""
        if len(value) > cls.BYTES_MAX:
            raise cls.invalid(key, f"it has {len(value)} bytes, more than {cls.BYTES_MAX}")
        try:
            return cls.model_validate_json(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise cls.invalid(key, f"{where}: {first['msg']}" if where else first["msg"]) from None

    @classmethod
    def invalid(cls, key: str, problem: str) -> StoredValueInvalid:
        """The error for a key of this kind with an invalid name or value."""
        return StoredValueInvalid(kind=cls.KIND, key=key, problem=problem[:_PROBLEM_SHOWN_MAX])
