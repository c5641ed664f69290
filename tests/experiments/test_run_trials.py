"""Running a set of trials, whatever happens to single ones: with a pool whose trials end as the test wants."""

import pytest

from sparcl.experiments.launch import Ended
from sparcl.experiments.run_trials import MAX_LOSSES, run_trials
from sparcl.experiments.trial import Trial
from sparcl.files import write_json
from sparcl.learning.settings import resolve

LOST, FAILED, DONE = Ended("lost", "killed"), Ended("failed", "it diverged"), Ended("finished")


def trial(seed):
    return Trial(f"seed {seed}", resolve({"dataset": "digits", "method": "sgd", "seed": seed}))


class Pool:
    """Two places; a trial ends as its script says, one word for each start."""

    name = "scripted"

    def __init__(self, scripts):
        self.scripts = {label: list(words) for label, words in scripts.items()}
        self.started, self.running, self.stopped, self.closed = [], {}, False, False

    def has_room(self):
        return len(self.running) < 2

    def start(self, one, directory):
        self.started.append(one.label)
        self.running[directory] = one

    def ended(self, seconds):
        path, one = next(iter(self.running.items()))
        word = self.scripts[one.label].pop(0)
        if isinstance(word, BaseException):
            raise word
        del self.running[path]
        if word is DONE:
            write_json(path / "result.json", {"class_il": {"average": 50.0}})
        return {path: word}

    def stop(self):
        self.stopped = True

    def close(self):
        self.closed = True


class Watcher:
    def __init__(self):
        self.left = []

    def show(self, statuses, seconds_left):
        assert len({status.directory for status in statuses}) == len(statuses)
        self.left.append(seconds_left)


def test_a_lost_trial_goes_on_and_a_failed_one_holds_nobody_up(tmp_path):
    pool = Pool({"seed 0": [LOST, LOST, DONE], "seed 1": [FAILED], "seed 2": [DONE], "seed 3": [LOST] * 9})
    statuses = run_trials([trial(seed) for seed in range(4)], tmp_path, pool, Watcher())
    assert [one.place for one in statuses] == ["finished", "failed", "finished", "failed"]
    assert statuses[1].message == "it diverged"
    assert pool.started.count("seed 0") == 3
    assert pool.started.count("seed 1") == 1
    assert pool.started.count("seed 3") == MAX_LOSSES + 1
    assert pool.closed and not pool.stopped


def test_what_is_finished_is_not_started_and_equal_trials_are_one(tmp_path):
    run_trials([trial(0)], tmp_path, Pool({"seed 0": [DONE]}), Watcher())
    pool = Pool({"seed 1": [DONE]})
    statuses = run_trials([trial(0), trial(1), trial(0), trial(1)], tmp_path, pool, Watcher())
    assert pool.started == ["seed 1"]
    assert [one.place for one in statuses] == ["cached", "finished"]


def test_an_interrupt_stops_the_pool(tmp_path):
    pool = Pool({"seed 0": [KeyboardInterrupt()]})
    with pytest.raises(KeyboardInterrupt):
        run_trials([trial(0)], tmp_path, pool, Watcher())
    assert pool.stopped and pool.closed


def test_the_time_left_follows_from_the_work_done(tmp_path):
    """Four equal trials, one second each on a clock that the test turns: three, two, one and none are left."""
    now = iter(range(100))
    watcher = Watcher()
    pool = Pool({f"seed {seed}": [DONE] for seed in range(4)})
    run_trials([trial(seed) for seed in range(4)], tmp_path, pool, watcher, clock=lambda: next(now))
    assert watcher.left == pytest.approx([3.0, 2.0, 1.0, 0.0, 0.0])
