"""What follows from a scenario: places for jobs, and what the host prepares."""

from papers.simulate.jobs import Job
from papers.simulate.scenario import Scenario

JOBS = [Job(speed=speed, epochs=1) for speed in (1.0, 4.0, 2.0)]


def test_all_jobs_have_a_place_unless_fewer_are_asked_for():
    assert Scenario(JOBS, 100).places == 3
    assert Scenario(JOBS, 100, at_once=2).places == 2


def test_a_host_prepares_a_share_of_what_the_fastest_that_fit_would_consume():
    assert Scenario(JOBS, 100, preparing=0.5).prepared_per_time == 0.5 * 7 * 100
    assert Scenario(JOBS, 100, preparing=1.0, at_once=2).prepared_per_time == 6 * 100
