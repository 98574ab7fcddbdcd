"""A stand-in for data frames, so that what takes them is tested without a library of them."""


class Frame:
    """What a data frame is to this library: columns by name, as items and as attributes."""

    def __init__(self, **columns) -> None:
        self.__dict__.update(columns)
        self.columns = list(columns)

    def __getitem__(self, name: str):
        return self.__dict__[name]
