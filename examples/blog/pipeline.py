"""A small blog: posts, and the profiles of those who wrote them."""

import seamark as sm

ds = sm.DataStore()  # where the control database and the warehouse are, seamark.toml says

posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string", key="id")
clicks = ds.table("clicks", "url string, at timestamp", event_time="at")  # no key: append-only
