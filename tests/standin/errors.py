"""What the server refuses, in its own words."""


class Refused(Exception):
    """`text` as the server says it; who answers adds where it happened. `status` is REST's."""

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.text, self.status = text, status


def unknown_property(name: str, collection: str) -> Refused:
    return Refused(
        f"no such prop with name '{name}' found in class '{collection}' in the schema. Check your schema files for which "
        "properties in this class are available"
    )


def not_indexed(verb: str, name: str, option: str) -> Refused:
    return Refused(
        f"{verb} by property '{name}' requires inverted index. Is `{option}` option of property '{name}' enabled? "
        "Set it to `true` or leave empty"
    )
