"""What the numbers in columns stand for: codes, and the ids that definitions give names to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.ledger.reading.definitions import Definitions

TEXT_CODES: Final = pa.dictionary(pa.int32(), pa.string())
"""The type of few texts that come again and again, where they need not be plain."""

SHARED: Final = 64
SHARED_BITS: Final = 16
SHARED_CHARS: Final = 40
"""So many arrays of one value are kept, of lengths of so many bits, of texts of so many characters: some 3 MB
each at most where they are ASCII."""

DENSE_TABLE: Final = 1024
DENSE_SHARE: Final = 4
"""Ids below this number, or below so many times as many as have names, are looked up in a table."""


class Names:
    """Texts by number for a column of numbers: codes, or ids, which may be far apart."""

    def __init__(self, names: Mapping[int, str | None]) -> None:
        highest = max(names, default=0)
        if highest < DENSE_TABLE or highest < len(names) * DENSE_SHARE:
            self._numbers: npt.NDArray[np.int64] | None = None
            texts = [names.get(number) for number in range(highest + 1)]
        else:
            self._numbers = np.array(sorted(names), np.int64)
            texts = [names[number] for number in self._numbers.tolist()]
        self.texts: Final = pa.array([*texts, None], pa.string())
        """By number, or in the order of the numbers; behind them the text of numbers that have none."""

    def of(self, numbers: Array) -> "Coded":
        """The texts of many numbers; null for a number that has none."""
        if len(numbers) == 0:
            return Coded(self, None, len(self.texts) - 1, 0)
        if numbers.strides == (0,):  # known to be one number: see `expand`
            return Coded(self, None, int(self._places(numbers[:1], int(numbers[0]))[0]), len(numbers))
        numbers = np.ascontiguousarray(numbers)
        lowest, highest = int(numbers.min()), int(numbers.max())
        if lowest == highest:  # mostly so: a run of arrivals, a column that is seldom used
            return Coded(self, None, int(self._places(numbers[:1], highest)[0]), len(numbers))
        return Coded(self, self._places(numbers, highest), 0, len(numbers))

    def _places(self, numbers: Array, highest: int) -> Array:
        """Where in the texts each of the numbers is."""
        nothing = len(self.texts) - 1
        if self._numbers is None:
            return numbers if highest <= nothing else np.minimum(numbers, np.int64(nothing))
        at = np.searchsorted(self._numbers, numbers)
        return np.where(self._numbers[np.minimum(at, nothing - 1)] == numbers, at, nothing)

    @cached_property
    def dictionary(self) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """Each text once, and by place which it is, −1 for none."""
        codes: dict[str, int] = {}
        which = [
            -1 if text is None else codes.setdefault(text, len(codes)) for text in self.texts.to_pylist()
        ]
        return pa.array(list(codes), pa.string()), np.array(which, np.int32)


@dataclass(frozen=True, slots=True)
class Coded:
    """Texts of a column before it is known how they are wanted: plain, or as a dictionary array."""

    names: Names
    places: Array | None
    """Where in the names each is; None: all at `place`."""
    place: int
    count: int

    def plain(self) -> pa.Array:
        """The texts themselves."""
        texts = self.names.texts
        if self.places is None:
            return repeated(texts[self.place].as_py(), texts.type, self.count)
        return texts.take(pa.array(self.places))

    def coded(self, kind: pa.DictionaryType) -> pa.Array:
        """Numbers of a dictionary in which each text is once."""
        texts, codes = self.names.dictionary
        indices = np.full(self.count, codes[self.place]) if self.places is None else codes[self.places]
        none = indices < 0
        numbers = indices.astype(kind.index_type.to_pandas_dtype())
        return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=none if none.any() else None), texts)


_one: Final = lru_cache(maxsize=64)(lambda text: Names({0: text}))


def same(text: str | None, count: int) -> Coded:
    """One text many times."""
    return Coded(_one(text), None, 0, count)


def repeated(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """One value many times; arrays never change, so blocks share those of short texts and of numbers."""
    bits = count.bit_length()
    if bits > SHARED_BITS or (isinstance(value, str) and len(value) > SHARED_CHARS):
        return pa.repeat(pa.scalar(value, kind), count)
    return _shared(value, kind, bits).slice(0, count)


@lru_cache(maxsize=SHARED)
def _shared(value: str | int | None, kind: pa.DataType, bits: int) -> pa.Array:
    """One value as often as the highest number of so many bits says."""
    count = (1 << bits) - 1
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


class Known:
    """What the ids in a run of rows stand for, from the definitions that it speaks of.

    Each table is made when a column first asks for it.
    """

    def __init__(self, ledger_id: bytes, epoch: int, definitions: Definitions) -> None:
        self.ledger_id: Final = str(UUID(bytes=ledger_id))
        self.epoch: Final = epoch
        self._definitions: Final = definitions
        self._details: Final[dict[tuple[str, str], Names]] = {}

    @cached_property
    def queues(self) -> Names:
        return Names(self._definitions.queue_names)

    @cached_property
    def producers(self) -> Names:
        """Names of producers with their container's."""
        return Names(self._definitions.producer_names)

    @cached_property
    def receiving(self) -> Names:
        """Names of receiving channels by producer."""
        channels = self._definitions.receiving_channels
        return Names({number: channel for number, (channel, _) in channels.items()})

    @cached_property
    def origins(self) -> Names:
        """The ledgers that those channels receive from, by producer."""
        channels = self._definitions.receiving_channels
        return Names({number: str(UUID(hex=ledger)) for number, (_, ledger) in channels.items() if ledger})

    def details(self, who: Literal["holder", "producer"], field: str) -> Names:
        """What is said of holders or producers under `field` of their details."""
        names = self._details.get((who, field))
        if names is None:
            details: Mapping[int, Mapping[str, Any]] = getattr(self._definitions, f"{who}_details")
            texts = {number: detail.get(field) for number, detail in details.items()}
            names = Names({number: str(text) for number, text in texts.items() if text})
            self._details[who, field] = names
        return names
