"""What the sections of the page are about: a learner's state, looked at once."""

from dataclasses import dataclass, field
from pathlib import Path

from sparcl.figures import raster
from sparcl.figures.markup import Markup, element
from sparcl.instant.photo_doctor import Examination, shown_digest
from sparcl.instant.photos import from_jpeg
from sparcl.instant.state import InstantState

SIDE = 96  # pixels of a thumbnail


@dataclass(frozen=True)
class Subject:
    directory: Path
    state: InstantState
    examination: Examination
    _drawn: dict[int, str] = field(default_factory=dict)

    def thumbnail(self, place: int, told: str = "") -> Markup:
        """A picture that is kept, with its class and its digest under the pointer."""
        kept = self.state.kept
        if place not in self._drawn:
            self._drawn[place] = raster.photo(from_jpeg(kept.jpegs[place], self.state.about.size), SIDE)
        name = kept.name_of(place)
        title = f"{name}, picture {shown_digest(kept, place)}" + (f": {told}" if told else "")
        return element("img", src=self._drawn[place], alt=f"a picture of {name}", title=title, class_="thumb")
