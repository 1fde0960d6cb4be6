"""What a job has made itself and found equal: marks of each form, in memory that its processes share."""

import os
import pickle

import pytest

from seneca.forms import Form
from seneca.workers.proof.marks import Marks


@pytest.fixture
def marks():
    return Marks((b"source", 1, 2), 1_000)


def test_each_form_has_marks_of_its_own(marks):
    assert all(not marks.of(form).any() for form in Form)
    marks.of(Form.DECODED)[:] = 1
    assert [bool(marks.of(form).any()) for form in Form] == [form is Form.DECODED for form in Form]
    assert not marks.draws and marks.next_probe() == 0


def test_other_processes_see_them(marks):
    pid = os.fork()
    if pid == 0:
        marks.of(Form.AUGMENTED)[3], marks.draws = 7, True
        marks.next_probe()
        os._exit(0)
    os.waitpid(pid, 0)
    assert marks.of(Form.AUGMENTED)[3] == 7 and marks.draws and marks.next_probe() == 1
    assert marks.is_shared


def test_a_copy_of_another_process_begins_without_a_view_of_the_memory_here(marks):
    marks.of(Form.ENCODED)
    state = marks.__getstate__()
    assert state.pop("_view") is None
    assert pickle.dumps(state["names"]) and state["_words"].is_shared()


def test_without_changed_files_each_process_compares_for_itself(marks):
    marks.expect_suspects(None, None)
    marks.compared[5] = 1
    assert marks.compared[5] == 0
