"""What is known of views besides their chains."""

from seamark.control import ViewState


def test_nobody_has_written_about_a_new_view(control):
    assert control.views.find("orders_v") == ViewState("orders_v")
    assert not control.views.find("orders_v").is_paused
    assert control.views.all() == {}


def test_a_view_is_paused_since_the_first_who_paused_it(control):
    control.views.pause("orders_v", 10.0)
    control.views.pause("orders_v", 20.0)
    assert control.views.find("orders_v") == ViewState("orders_v", paused_since=10.0)
    assert control.views.find("orders_v").is_paused

    control.views.resume("orders_v")
    assert not control.views.find("orders_v").is_paused

    control.views.pause("orders_v", 30.0)
    assert control.views.find("orders_v").paused_since == 30.0


def test_a_view_that_was_never_paused_can_be_resumed(control):
    control.views.resume("orders_v")
    assert control.views.all() == {}


def test_what_was_analysed_and_the_pause_stand_side_by_side(control):
    control.views.record_analysed("orders_v", "d1", "{}")
    control.views.record_analysed("customers_v", "d2", "{}")
    control.views.pause("orders_v", 10.0)
    control.views.record_analysed("orders_v", "d3", "[]")
    assert control.views.all() == {
        "customers_v": ViewState("customers_v", "d2", "{}"),
        "orders_v": ViewState("orders_v", "d3", "[]", 10.0),
    }
    control.views.resume("orders_v")
    assert control.views.find("orders_v") == ViewState("orders_v", "d3", "[]")
