"""What the rehearsal buffer holds."""

from collections.abc import Sequence

import numpy as np

from sparcl.figures import raster
from sparcl.figures.markup import Markup, element, join
from sparcl.report.measures import RunView
from sparcl.report.page.parts import Section, note_on, run_tag
from sparcl.report.run_record import StoredBuffer

MAX_IMAGES = 120  # of a run, where its classes allow
MAX_OF_A_CLASS = 6
MAX_CLASSES = 200
LARGEST_SIDE = 40  # pixels of a shown image


def section(views: Sequence[RunView]) -> Section:
    kept = [(view, view.run.buffer) for view in views]
    content = [_buffer(view, buffer) for view, buffer in kept if buffer is not None]
    content.append(note_on([view for view, buffer in kept if buffer is None], "left no checkpoint with a buffer."))
    lead = "Images kept for rehearsal in the newest checkpoint, and how many of each class there are."
    return Section("buffer", "Rehearsal buffer", lead, join(*content))


def _buffer(view: RunView, buffer: StoredBuffer) -> Markup:
    labels = np.unique(buffer.labels)
    each = max(1, min(MAX_OF_A_CLASS, MAX_IMAGES // len(labels)))
    names, strips = view.run.class_names, []
    for label in labels[:MAX_CLASSES]:
        of_class = np.flatnonzero(buffer.labels == label)
        # Spread over the buffer rather than its first ones, so that what came early and late is seen.
        shown = of_class[np.linspace(0, len(of_class) - 1, min(each, len(of_class))).round().astype(int)]
        name = names[label] if label < len(names) else f"class {label}"
        picture = element(
            "img",
            src=raster.strip(buffer.images[shown], LARGEST_SIDE),
            alt=f"{len(shown)} kept images of {name}",
            height=LARGEST_SIDE,
        )
        caption = element(
            "figcaption", element("span", name), element("span", f"{len(of_class)}", class_="count"), title=name
        )
        strips.append(element("figure", picture, caption, class_="strip"))
    count = f" keeps {len(buffer.labels)} images of {len(labels)} classes"
    if len(labels) > MAX_CLASSES:
        count += f"; {MAX_CLASSES} of the classes are shown"
    return join(
        element("h3", run_tag(view), count), element("div", *strips, class_="strips" if each > 1 else "strips single")
    )
