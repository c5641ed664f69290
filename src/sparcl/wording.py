"""Words for numbers, in messages."""


def counted(number: int, noun: str) -> str:
    """ "1 picture", "1,200 pictures"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
