"""What is shown while something is done, in a log file: there a line is what a person sees of it."""

import pytest

from sparcl.cli import display
from sparcl.cli.learner import LearnDisplay
from sparcl.cli.status import show_status
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.wording import quoted

LONG = "47 pictures given as 'a', and known as 'a class with a name of some length' already: only one can be right."


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as a list of one number to be changed."""
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_a_line_of_an_epoch_has_the_mean_of_its_losses(capsys):
    with pytest.raises(KeyboardInterrupt), LearnDisplay(quiet=False) as shown:
        shown.started(6, 0)
        for step, loss in enumerate((4.0, 2.0, 1.0, 0.5, 9.0)):
            shown.stepped(step // 2, 3, step + 1, 6, loss)
        raise KeyboardInterrupt
    assert capsys.readouterr().err.splitlines() == ["epoch 1/3, mean loss 3.000", "epoch 2/3, mean loss 0.750"]


def test_the_last_epoch_has_its_line_even_if_time_ran_out_in_it(capsys):
    for total in (2, 8):
        with LearnDisplay(quiet=False) as shown:
            shown.started(total, 0)
            shown.stepped(0, 1, 1, total, 4.0)
            shown.stepped(0, 1, 2, total, 2.0)
        assert capsys.readouterr().err.splitlines() == ["epoch 1/1, mean loss 3.000"]


def test_a_note_stays_one_line_in_a_log(capsys):
    with LearnDisplay(quiet=False) as shown:
        shown.noted(LONG)
    assert capsys.readouterr().err == f"{LONG}\n"


def test_in_a_log_what_takes_long_has_lines(capsys, clock):
    with display.progress_bar() as progress:
        told = ((0, "tuning", 0), (4, "tuning", 1), (6, "preparing", 0), (8, "[b]", 1), (37, "[b]", 2))
        for second, what, done in told:
            clock[0] = second
            progress(what, done, 1000 if what == "[b]" else 0)
        clock[0] = 38
        progress("[b]", 999, 1000)
    assert capsys.readouterr().err.splitlines() == ["preparing", "[b], 1 of 1,000", "[b], 999 of 1,000"]


def test_what_is_done_at_once_or_quietly_has_no_lines(capsys, clock):
    with display.progress_bar() as progress:
        progress("reading", 1, 2)
    with display.progress_bar(quiet=True) as progress:
        clock[0] = 1000
        progress("reading", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_the_history_of_a_learner_compares_the_same_classes(capsys):
    """Before and after a session, on the classes known before; on all classes it is another number."""
    entry = HistoryEntry(
        number=2,
        when="2026-11-18T03:19:00+00:00",
        pictures={"plums": 53},
        epochs=20,
        steps=100,
        seconds=224.0,
        before=Judgement({"apples": (6, 7), "pears": (3, 3)}, None),
        after=Judgement({"apples": (0, 7), "pears": (1, 3), "plums": (7, 7)}, None),
    )
    network = {"model": "resnet18", "width": 32, "image_size": 64, "outputs": 3, "sparsity": 0.9}
    show_status(
        {
            "directory": "shop",
            "network": {**network, "stored_parameters": 1, "parameters": 2},
            "weights": None,
            "method": "derpp",
            "buffer": {"kept": 0, "capacity": 1, "bytes": 0, "pictures": 0},
            "state_bytes": 0,
            "directory_bytes": 0,
            "classes": [],
            "history": [entry],
            "caution": None,
            "learning": False,
            "resumable": False,
            "interrupted": False,
        }
    )
    line = capsys.readouterr().out.splitlines()[-1].rstrip()
    assert line.endswith(" 47.1%") and "90.0%, then 10.0%" in line


def test_a_path_in_a_command_is_no_option():
    assert [quoted(path) for path in ("-dash", "a b", "plain/x")] == ["./-dash", "'a b'", "plain/x"]
