"""What stands around a statement, in either language."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """`rest` is the statement itself. `explicit`: "remember that…"; `standing`: "from now on…", worded as `opening`;
    `corrects`: "sorry, I meant…"; `task`: what is asked for is an errand ("remember to call mum"), not something to know.
    """

    rest: str
    explicit: bool = False
    standing: bool = False
    corrects: bool = False
    task: bool = False
    opening: str = ""
