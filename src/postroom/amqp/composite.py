"""The base of all composite types (part 1, section 1.4): described lists with named fields."""

from librt.strings import BytesWriter


class Composite:
    """A described list with named fields, that can write itself."""

    def write(self, w: BytesWriter) -> None:
        """Appends the encoding: 0x00, the descriptor, the list of the fields."""
        raise NotImplementedError(type(self).__name__)


class Performative(Composite):
    """The operation that a frame carries (part 2, section 2.7)."""
