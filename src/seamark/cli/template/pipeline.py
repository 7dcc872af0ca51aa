"""A small pipeline to begin with: posts and the profiles of their authors in, lines to read out.

`seamark` runs this file to learn which tables and steps there are, so it only declares them: `load.py` writes the
sample data, and `seamark run` runs the step.
"""

import os
from pathlib import Path

import seamark as sm

os.chdir(Path(__file__).parent)  # the settings in seamark.toml are found here, wherever the program is started from

ds = sm.DataStore()

# A table with a key has one current row per key; one without a key only grows.
posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string", key="id")
feed = ds.table("feed", "post_id long, line string", key="post_id")


# A post that changed is computed again, and so are the posts of a profile that changed: nothing else.
@ds.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
def process_posts(posts, profiles):
    """Each post with its author's name."""
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    return joined.selectExpr("post_id", "concat(name, ': ', content) AS line")
