"""Writing a dataset as PNG files into class folders, the layout that image folders and learners read."""

import shutil
from pathlib import Path

from sparcl.data.load import decoding_options
from sparcl.data.source import Progress, Source
from sparcl.data.store import checked_blocks
from sparcl.errors import SparclError
from sparcl.files import TEMPORARY_SUFFIX, sync, write_error


def export_pictures(source: Source, root: Path | None, folder: Path, progress: Progress | None = None) -> int:
    """Write folder/train/CLASS/00000.png ... and folder/test/...; the folder appears when it is complete."""
    from PIL import Image  # here: only exporting and decoding need it

    if source.image_size is None:
        raise SparclError(f"{source.name} is a folder of pictures already.")
    contents = source.read(source.files(root), decoding_options(source, None, 0.2))
    if not folder.name:
        raise SparclError(f"{folder} is there already. Name the folder to make.")
    for name in contents.class_names:
        if "/" in name or name in (".", ".."):
            raise SparclError(f"The class {name!r} of {source.name} cannot be written: its name cannot be a folder's.")
    partial = folder.with_name(folder.name + TEMPORARY_SUFFIX)
    written = 0
    try:
        shutil.rmtree(partial, ignore_errors=True)
        for name, split in (("train", contents.train), ("test", contents.test)):
            folders = [partial / name / class_name for class_name in contents.class_names]
            counts = [0] * len(folders)
            for place in folders:
                place.mkdir(parents=True)
            for images, labels in checked_blocks(contents, split, f"writing {name} pictures", progress):
                for image, label in zip(images, labels, strict=True):
                    grey = image.shape[0] == 1
                    picture = Image.fromarray(image[0] if grey else image.transpose(1, 2, 0))
                    picture.save(folders[label] / f"{counts[label]:05d}.png")
                    counts[label] += 1
            written += sum(counts)
        if folder.exists():
            folder.rmdir()  # it was empty
        partial.rename(folder)
        sync(folder.absolute().parent)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_error(folder, error) from error
        raise
    return written
