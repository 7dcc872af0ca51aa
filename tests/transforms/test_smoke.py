import pytest


@pytest.mark.scenario("X33")
def test_a_renamed_profile_recomputes_exactly_its_posts(blog):
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"), (3, 100, "again"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()

    blog.write_profiles((100, "Alicia"))

    assert blog.run().keys == 2
    assert blog.lines() == [(1, "Alicia: hello"), (2, "Bob: hi"), (3, "Alicia: again")]
    assert blog.is_settled()


@pytest.mark.scenario("X12")
def test_idle(blog, count_jobs):
    blog.write_posts(*[(n, n % 7, "x") for n in range(1000)])
    assert blog.run().keys == 1000
    blog.calls()
    with count_jobs() as counted:
        assert not blog.store.run().did_something
    assert counted.jobs == 0
    assert blog.calls() == []
