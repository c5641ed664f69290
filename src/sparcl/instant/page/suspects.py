"""Pictures that somebody should look at, and why. All of them are named; the first ones are shown."""

from sparcl.figures.markup import Markup, element, join
from sparcl.instant.page.subject import Subject
from sparcl.instant.photo_doctor import WORDS, Finding, shown_digest
from sparcl.report.page.parts import Section, hidden, note, table
from sparcl.wording import quoted

MAX_SHOWN = 20  # of each kind


def section(subject: Subject) -> Section:
    numbered = list(enumerate(subject.examination.findings, 1))
    if not numbered:
        return Section("pictures", "Pictures to look at", "", note("Nothing is odd about any picture."))
    content = []
    for kind in WORDS:
        found = [(number, finding) for number, finding in numbered if finding.kind == kind]
        if not found:
            continue
        content.append(element("h3", f"{len(found):,} {WORDS[kind][len(found) > 1]}"))
        content.append(element("div", *(_shown(subject, *one) for one in found[:MAX_SHOWN]), class_="suspects"))
        if len(found) > MAX_SHOWN:
            content.append(note(f"{len(found) - MAX_SHOWN:,} more are in the list below."))
    rows = [
        [str(number), found.name, shown_digest(subject.state.kept, found.place), found.reason]
        for number, found in numbered
    ]
    content.append(
        hidden("All of them", table(["number", "class", "picture", "why"], rows, numbers_from=4), "findings")
    )
    directory = quoted(subject.directory)
    lead = (
        "Nothing was left out because of this. Say what a picture shows with: "
        f"sparcl correct {directory} PICTURE CLASS; or forget it: sparcl forget {directory} --picture PICTURE. "
        "PICTURE is the file, or the sixteen digits below it."
    )
    return Section("pictures", "Pictures to look at", lead, join(*content))


def _shown(subject: Subject, number: int, finding: Finding) -> Markup:
    thumbs = [subject.thumbnail(finding.place)]
    if finding.other is not None:
        thumbs.append(subject.thumbnail(finding.other))
    name = element("code", shown_digest(subject.state.kept, finding.place))
    told = [element("b", f"{number}. {finding.name}"), element("span", finding.reason), name]
    caption = element("figcaption", *told)
    return element(
        "figure", element("div", *thumbs, class_="thumbs"), caption, id=f"finding-{number}", class_="suspect"
    )
