"""A small blog: posts, the profiles of those who wrote them, and the feed that is made of both."""

import seamark as sm

ds = sm.DataStore()  # where the control database and the warehouse are, seamark.toml says

posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string", key="id")
feed = ds.table("feed", "post_id long, line string", key="post_id")
clicks = ds.table("clicks", "url string, at timestamp", event_time="at")  # no key: append-only


@ds.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
def process_posts(posts, profiles):
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    return joined.selectExpr("post_id", "concat(name, ': ', content) AS line")
