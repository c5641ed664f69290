"""Tiny ImageNet: 200 classes of photographs of 64x64 pixels (Stanford CS231n), or a part of it in the same layout.

    tiny-imagenet-200/wnids.txt                       the classes, one name such as n01443537 a line
                      words.txt                       n01443537 <tab> goldfish, Carassius auratus
                      train/<wnid>/images/*.JPEG
                      val/images/*.JPEG
                      val/val_annotations.txt         val_0.JPEG <tab> n03444034 <tab> ...

It is read from a folder or straight from the archive. The images in val are the test images, because those in test
have no published labels. The natural order of classes is that of wnids.txt; how many images there are is free.
"""

from collections import Counter
from pathlib import Path

from sparcl.data.source import Contents, DecodingOptions, Source, Split
from sparcl.data.store import data_directory
from sparcl.data.tree import Tree, open_tree, shown
from sparcl.errors import SparclError

SIDE = 64
FOLDER = "tiny-imagenet-200"
ARCHIVE = "tiny-imagenet-200.zip"

Pictures = list[tuple[str, int]]
"""Names of files and their labels."""


class TinyImagenet(Source):
    name = "tiny_imagenet"
    title = "Tiny ImageNet"
    description = "110,000 photographs of 64x64 pixels in 200 classes"
    classes = 200
    image_size = SIDE
    classes_per_task = 20
    flip = True
    padding = 4
    mean = (0.4802, 0.4480, 0.3975)
    std = (0.2770, 0.2691, 0.2821)

    def open(self, root: Path | None) -> Tree:
        root = root or data_directory() / self.name
        if root.is_file():
            return open_tree(root)
        for folder in (root, root / FOLDER):
            if (folder / "wnids.txt").is_file():
                return open_tree(folder)
        if (root / ARCHIVE).is_file():
            return open_tree(root / ARCHIVE)
        raise SparclError(
            f"Tiny ImageNet was not found under {root}. Run `sparcl data get tiny_imagenet`, or put {ARCHIVE} there."
        )

    def read(self, tree: Tree | None, options: DecodingOptions) -> Contents:
        assert tree is not None
        top = _top_folder(tree)
        label_of = _read_classes(tree, top + "wnids.txt")
        train = _training_pictures(tree, top + "train/", label_of)
        test = _test_pictures(tree, top + "val/", label_of)
        from sparcl.data.pictures import decoded_blocks, exact_size  # here: what is decoded already needs no Pillow

        return Contents(
            class_names=_class_names(tree, top + "words.txt", list(label_of)),
            image_shape=(3, SIDE, SIDE),
            train=Split(len(train), decoded_blocks(tree, train, exact_size(SIDE))),
            test=Split(len(test), decoded_blocks(tree, test, exact_size(SIDE))),
        )


def _top_folder(tree: Tree) -> str:
    """What all names begin with: nothing in a folder, usually tiny-imagenet-200/ in an archive."""
    for name in tree.names:
        if name == "wnids.txt" or name.endswith("/wnids.txt"):
            return name.removesuffix("wnids.txt")
    raise SparclError(f"{tree.location} does not hold Tiny ImageNet: wnids.txt is missing. Get it again.")


def _lines(tree: Tree, name: str) -> list[tuple[str, str]]:
    """The lines that are not empty, each with the place to name in a message."""
    lines = enumerate(tree.read_text(name).splitlines(), start=1)
    return [(line, f"{tree.where(name)}, line {number}") for number, line in lines if line.strip()]


def _read_classes(tree: Tree, name: str) -> dict[str, int]:
    label_of: dict[str, int] = {}
    for line, where in _lines(tree, name):
        wnid = line.strip()
        if wnid in label_of:
            raise SparclError(f"{where}: the class {shown(wnid)} is listed twice. Remove the line.")
        label_of[wnid] = len(label_of)
    if not label_of:
        raise SparclError(f"{tree.where(name)} lists no classes. Get the dataset again.")
    return label_of


def _class_names(tree: Tree, name: str, wnids: list[str]) -> tuple[str, ...]:
    """The first of the words for each class; with the wnid if two classes share it, or alone if there is no word."""
    words: dict[str, str] = {}
    if name in tree.names:
        for line, _ in _lines(tree, name):
            wnid, _, description = line.partition("\t")
            words[wnid] = description.split(",")[0].strip()
    shared = Counter(words.get(wnid, "") for wnid in wnids)
    named = {wnid: words[wnid] for wnid in wnids if words.get(wnid) and words[wnid].isprintable()}
    return tuple(
        wnid if wnid not in named else named[wnid] if shared[named[wnid]] == 1 else f"{named[wnid]} ({wnid})"
        for wnid in wnids
    )


def _training_pictures(tree: Tree, folder: str, label_of: dict[str, int]) -> Pictures:
    pictures: Pictures = []
    for name in tree.names:
        wnid, _, rest = name.removeprefix(folder).partition("/")
        if name.startswith(folder) and rest.startswith("images/"):
            if wnid not in label_of:
                raise SparclError(f"{tree.where(folder + wnid)} is not among the classes in wnids.txt. Remove it.")
            pictures.append((name, label_of[wnid]))
    present = {label for _, label in pictures}
    for wnid, label in label_of.items():
        if label not in present:
            raise SparclError(f"{tree.where(f'{folder}{wnid}/images')} has no images. Remove {wnid} from wnids.txt.")
    return pictures


def _test_pictures(tree: Tree, folder: str, label_of: dict[str, int]) -> Pictures:
    names, annotations = set(tree.names), folder + "val_annotations.txt"
    if annotations not in names:
        raise SparclError(f"{tree.where(annotations)} is missing. Get the dataset again.")
    label_of_picture: dict[str, int] = {}
    for line, where in _lines(tree, annotations):
        file, _, rest = line.partition("\t")
        wnid, picture = rest.split("\t")[0].strip(), f"{folder}images/{file}"
        if wnid not in label_of:
            raise SparclError(f"{where}: {shown(wnid)!r} is not among the classes in wnids.txt. Correct the line.")
        if picture not in names:
            raise SparclError(f"{where}: the image {shown(file)} is not in val/images. Add it or remove the line.")
        if picture in label_of_picture:
            raise SparclError(f"{where}: the image {shown(file)} is listed twice. Remove the line.")
        label_of_picture[picture] = label_of[wnid]
    return list(label_of_picture.items())
