"""Any folder (or .zip) of class folders with pictures in them.

    photos/cat/a.jpg  photos/dog/b.png ...              a share of each class becomes test images, always the same ones
    photos/train/cat/a.jpg  photos/test/cat/c.jpg ...   or the splits are given: train and test (or val, if no test)

The names of the folders, sorted, are the classes. Folders around the whole are looked through, folders inside a class
belong to the class. Files beside the class folders, hidden files and what operating systems leave behind are ignored;
anything else in a class folder has to be a readable picture. A picture is turned upright (EXIF), its largest centred
square is resized to image_size with a smoothing bilinear filter, transparent parts become white, grey becomes RGB.
"""

import hashlib
import os
from pathlib import Path

from sparcl.data.shares import count_aside
from sparcl.data.source import Contents, DecodingOptions, Source, Split
from sparcl.data.tree import Tree, open_tree, shown
from sparcl.errors import SparclError

DEFAULT_SIZE = 32

Classes = dict[str, list[str]]
"""The names of the picture files of each class."""


class ImageFolder(Source):
    name = "folder"
    title = "Image folder"
    description = "your own pictures: a folder or .zip with one folder for each class"
    classes_per_task = 2
    flip = True

    def open(self, root: Path | None) -> Tree:
        if root is None:
            raise SparclError("The dataset 'folder' needs data.root=PATH: a folder or .zip with the class folders.")
        if root.is_file() and root.suffix.lower() != ".zip":
            raise SparclError(
                f"{root} is neither a folder nor a .zip archive. Pack the class folders into one of these."
            )
        return open_tree(root)

    def read(self, tree: Tree | None, options: DecodingOptions) -> Contents:
        assert tree is not None
        train, test = _splits(tree, options.test_share)
        class_names = tuple(train)
        size = options.image_size or DEFAULT_SIZE
        return Contents(
            class_names=class_names,
            image_shape=(3, size, size),
            train=_split(tree, train, class_names, size),
            test=_split(tree, test, class_names, size),
        )


def _split(tree: Tree, classes: Classes, class_names: tuple[str, ...], size: int) -> Split:
    pictures = [(name, label) for label, class_name in enumerate(class_names) for name in classes[class_name]]
    from sparcl.data.pictures import centre_square, decoded_blocks  # here: what is decoded already needs no Pillow

    return Split(len(pictures), decoded_blocks(tree, pictures, centre_square(size)))


def _splits(tree: Tree, test_share: float) -> tuple[Classes, Classes]:
    top = _top_folder(tree)
    inside = {name.lower(): name for name in _classes(tree, top)}
    training = inside.get("train")
    held_out = inside.get("test") or inside.get("val")
    if training and held_out:
        train, test = _classes(tree, f"{top}{training}/"), _classes(tree, f"{top}{held_out}/")
        for class_name in sorted(train.keys() ^ test.keys()):
            here, there = (training, held_out) if class_name in train else (held_out, training)
            raise SparclError(
                f"{tree.location}: the class {class_name!r} is in {here} but not in {there}. Add it there."
            )
        _check_counts(tree, train, 1)
        _check_counts(tree, test, 1)
        return train, test
    classes = _classes(tree, top)
    _check_counts(tree, classes, 2)
    train, test = {}, {}
    for class_name, names in classes.items():
        count = count_aside(len(names), test_share)
        # By a digest of the file's name: new classes and new pictures do not turn old training pictures into test ones.
        by_digest = sorted(names, key=lambda name: hashlib.sha256(os.fsencode(name[len(top) :])).digest())
        test[class_name], train[class_name] = sorted(by_digest[:count]), sorted(by_digest[count:])
    return train, test


def _top_folder(tree: Tree) -> str:
    """The folders around the class folders: while there is only one folder and no picture lies directly in it."""
    top = ""
    while True:
        inside = {name[len(top) :].split("/")[0] for name in tree.names + tree.folders if name.startswith(top)}
        if len(inside) != 1:
            return top
        deeper = f"{top}{inside.pop()}/"
        if not any(name.startswith(deeper) for name in tree.names) or any(
            "/" not in name[len(deeper) :] for name in tree.names if name.startswith(deeper)
        ):
            return top
        top = deeper


def _classes(tree: Tree, top: str) -> Classes:
    """The class folders right below `top`, sorted, also those that are empty."""
    classes: Classes = {}
    for folder in tree.folders:
        if folder.startswith(top):
            classes.setdefault(folder[len(top) :].split("/")[0], [])
    for name in tree.names:
        class_name, slash, _ = name[len(top) :].partition("/")
        if name.startswith(top) and slash:
            classes.setdefault(class_name, []).append(name)
    for class_name in classes:
        if not class_name.isprintable():
            raise SparclError(f"{tree.location}: the folder {shown(class_name)} has unprintable characters. Rename it.")
    return dict(sorted(classes.items()))


def _check_counts(tree: Tree, classes: Classes, least: int) -> None:
    if len(classes) < 2:
        raise SparclError(
            f"{tree.location} has {len(classes)} class folders. At least 2 are needed, one for each class."
        )
    for class_name, names in classes.items():
        if len(names) < least:
            raise SparclError(
                f"{tree.location}: the class {class_name!r} has too few images ({len(names)}; it needs {least}). "
                "Add some or remove the folder."
            )
