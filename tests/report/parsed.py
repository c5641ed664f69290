"""A page taken apart again, by the standard library's parser."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.measures: list[tuple[str, str]] = []  # data-measure and the text in it
        self.cells: list[list[str]] = []  # of all tables, row by row
        self.text = ""
        self._measure: str | None = None
        self._cell = False
        self._raw: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = {key: value or "" for key, value in attributes}
        self.elements.append((tag, found))
        self._measure = found.get("data-measure")
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        self._cell = self._cell or tag in ("td", "th")
        self._raw = [*self._raw, tag] if tag in ("script", "style") else self._raw

    def handle_endtag(self, tag):
        self._measure = None
        if tag in ("td", "th"):
            self._cell = False
        if tag in ("script", "style"):
            self._raw = self._raw[:-1]

    def handle_data(self, data):
        if self._raw:
            (self.scripts if self._raw[-1] == "script" else self.styles).append(data)
            return
        self.text += data
        if self._measure:
            self.measures.append((self._measure, data))
        if self._cell:
            self.cells[-1][-1] += data

    def with_class(self, name: str) -> list[dict[str, str]]:
        return [found for _, found in self.elements if name in found.get("class", "").split()]
