"""Small learners and the digits as picture files."""

from pathlib import Path

import pytest
from small import Photos

from sparcl.data.export import export_pictures
from sparcl.data.load import find_source


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """All digits, as `sparcl data export digits` writes them."""
    folder = tmp_path_factory.mktemp("digits") / "photos"
    export_pictures(find_source("digits"), None, folder)
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory, digits) -> Photos:
    """Folders with the first 24 pictures of each digit."""
    return Photos(tmp_path_factory.mktemp("photos"), digits)
