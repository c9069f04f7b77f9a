"""Fields out of a dictionary, for tests of the language alone."""

from postroom.model.selector import Fields, parse


class Values(Fields):
    def __init__(self, values: dict[str, object]) -> None:
        self.values = values

    def value(self, name: str) -> object:
        return self.values.get(name)


def selects(text: str, **values: object) -> bool:
    return parse(text).matches(Values(values))
