"""Which settings a table names: those that were changed, in the names of rows or below the table."""

import pytest

from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.report.changes import changed_settings, shared
from sparcl.report.comparison import distinct_names


def settings_of(preset, *changes):
    return resolve(with_changes(from_preset(preset), changes))


@pytest.mark.parametrize(
    ("preset", "changes", "expected"),
    [
        ("digits/er", [], {}),
        ("digits/er", ["seed=7", "threads=1", "backend=native", "checkpoint.minutes=0", "tuning_seconds=0"], {}),
        ("digits/er", ["epochs=3", "method.learning_rate=0.5"], {"epochs": 3, "method.learning_rate": 0.5}),
        ("cifar10/er", ["protocol=reduced"], {"protocol": "reduced"}),
        ("cifar10/er", ["protocol=reduced", "width=8"], {"protocol": "reduced", "width": 8}),
        # alpha follows the buffer size: nobody has changed it
        ("cifar10/derpp", ["buffer_size=200"], {"buffer_size": 200}),
        ("cifar10/derpp", ["buffer_size=200", "method.alpha=0.2"], {"buffer_size": 200, "method.alpha": 0.2}),
        ("cifar10/sparcl-er-90", ["sparsifier.preset=official"], {"sparsifier.preset": "official"}),
        # so do the rate and the decay with AdamW
        ("digits/lwf", ["optimizer=adamw"], {"optimizer.name": "adamw"}),
        ("digits/er", ["optimizer.momentum=0.9", "rates.conv1=0"], {"optimizer.momentum": 0.9, "rates.conv1": 0}),
        (
            "digits/er",
            ["schedule=linear", "schedule.warmup_steps=3"],
            {"schedule.name": "linear", "schedule.warmup_steps": 3},
        ),
        ("digits/sparcl-er-75", ["data.tasks=2", "sparsifier.q=0.5"], {"data.tasks": 2, "sparsifier.q": 0.5}),
    ],
)
def test_what_was_changed(preset, changes, expected):
    assert changed_settings(settings_of(preset, *changes)) == expected


def test_a_change_in_some_rows_is_in_their_names_and_one_in_all_is_not():
    rows = [
        settings_of("digits/er", "width=8", "epochs=3"),
        settings_of("digits/derpp", "width=8"),
        settings_of("digits/ewc", "width=8", "method.gamma=0.5"),
    ]
    assert distinct_names(rows) == ["digits/er epochs=3", "digits/derpp", "digits/ewc gamma=0.5"]
    assert shared([changed_settings(row) for row in rows]) == {"width": 8}
