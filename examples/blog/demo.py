"""The tour: load, change, look; run a step, change one profile, run again; ask why, and prove all of it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table as Grid
from rich.tree import Tree

import seamark as sm

HERE = Path(__file__).parent
console = Console(highlight=False)
COLOURS = {sm.Op.APPEND: "green", sm.Op.RETRACT: "red", sm.Op.CORRECT_FROM: "yellow", sm.Op.CORRECT_TO: "cyan"}


def main() -> None:
    os.chdir(HERE)
    shutil.rmtree(".seamark", ignore_errors=True)
    from pipeline import clicks, ds, feed, posts, profiles

    chapter("Load two files", "The first write of each table needs no Spark: it takes a moment.")
    begun = time.perf_counter()
    tell(profiles.upsert(pd.read_csv("data/profiles.csv")))
    tell(posts.upsert(pd.read_csv("data/posts.csv")))
    tell(
        clicks.append(
            pd.DataFrame({"url": ["/posts/1", "/posts/4"], "at": pd.to_datetime(["2026-05-01", "2026-05-02"])})
        )
    )
    console.print(f"  [dim]{time.perf_counter() - begun:.1f} s[/]")

    chapter("Change a little", "One post is edited, one is new, one is written again as it was.")
    edited = pd.DataFrame(
        {
            "post_id": [2, 5, 7],
            "user_id": [200, 200, 100],
            "content": ["Fog until one o'clock", "Sun at last", "Ferry runs again"],
        }
    )
    tell(posts.upsert(edited))
    console.print("  The same once more:")
    tell(posts.upsert(edited))
    console.print("  And post 6 goes, with one that never was:")
    tell(posts.delete(pd.DataFrame({"post_id": [6, 99]})))

    chapter(
        "The change records", "Both images of a correction are kept: whoever reads them can undo exactly what they did."
    )
    show_changes(posts)

    chapter("The rows, now and as they stood after record 5")
    show_rows(posts.rows(), posts.rows(as_of=5))

    chapter("The chain", "Every block names its predecessor's hash; `seamark log posts` shows all of it.")
    show_chain(ds, "posts")

    chapter("Run the step", "The feed is made of posts and profiles: all of it in the first run, and then nothing.")
    tell_run(ds.run())
    tell_run(ds.run())

    chapter("One profile changes", "Exactly the posts of this profile are computed again.")
    tell(profiles.upsert(pd.DataFrame({"id": [200], "name": ["Captain Bob"]})))
    tell_run(ds.run())
    show_feed(feed)

    chapter(
        "Why does line 2 read so?",
        "The records behind a row; `seamark why feed post_id=2` shows them too, with their blocks.",
    )
    show_origin(ds.why("feed", {"post_id": 2}))

    chapter("Proof", "Every byte is read again and compared with the chain, and the feed is computed once more.")
    prove(ds, posts)

    console.print("\n[bold]Look around yourself:[/]  cd examples/blog && ../../.venv/bin/seamark status\n")


def chapter(title: str, text: str = "") -> None:
    console.print(f"\n[bold blue]{title}[/]")
    if text:
        console.print(f"[dim]{text}[/]")


def tell(commit: sm.Commit | None) -> None:
    if commit is None:
        console.print("  [dim]nothing differs: no block written[/]")
        return
    parts = [f"{commit.appended} new", f"{commit.corrected} corrected", f"{commit.retracted} retracted"]
    told = ", ".join(part for part in parts if not part.startswith("0 "))
    offsets = f"records {commit.first_offset}–{commit.last_offset}"
    console.print(f"  [bold]{commit.table}[/]: {told} → {offsets}, block {commit.block_hashes[-1][:13]}")


def tell_run(report: sm.RunReport) -> None:
    for name, step in report.steps.items():
        if not step.did_something:
            console.print(f"  [bold]{name}[/]: [dim]nothing to do[/]")
            continue
        parts = [f"{step.appended} new", f"{step.corrected} corrected", f"{step.retracted} retracted"]
        told = ", ".join(part for part in parts if not part.startswith("0 "))
        console.print(f"  [bold]{name}[/] ({step.mode}): {step.keys} keys → {told}  [dim]{step.seconds:.1f} s[/]")


def show_feed(table: sm.Table) -> None:
    grid = Grid("post", "line")
    for row in table.rows().orderBy("post_id").collect():
        grid.add_row(str(row.post_id), row.line)
    console.print(grid)


def show_origin(row: sm.Provenance, tree: Tree | None = None) -> None:
    key = ", ".join(f"{name}={value}" for name, value in row.key.items())
    values = ", ".join(str(value) for name, value in (row.row or {}).items() if name not in row.key)
    by = f", by {row.step}" if row.step else ""
    told = f"[bold]{row.table}[/] {key}: {values}  [dim]record {row.offset}{by}[/]"
    branch = tree.add(told) if tree else Tree(told, guide_style="dim")
    for behind in row.inputs:
        show_origin(behind, branch)
    if tree is None:
        console.print(branch)


def show_changes(table: sm.Table) -> None:
    grid = Grid("offset", "op", *table.schema.names)
    for row in table.changes().collect():
        op = sm.Op(row.op)
        cells = [str(row.offset), op.sign, *[str(row[name]) for name in table.schema.names]]
        grid.add_row(*cells, style=COLOURS[op])
    console.print(grid)


def show_rows(now: object, before: object) -> None:
    grid = Grid("post", "after record 5", "now")
    then = {row.post_id: row.content for row in before.collect()}  # type: ignore[attr-defined]
    today = {row.post_id: row.content for row in now.collect()}  # type: ignore[attr-defined]
    for key in sorted({*then, *today}):
        style = "" if then.get(key) == today.get(key) else "bold"
        grid.add_row(str(key), then.get(key, "[dim]–[/]"), today.get(key, "[dim]–[/]"), style=style)
    console.print(grid)


def show_chain(ds: sm.DataStore, table: str) -> None:
    grid = Grid("block", "event", "offsets", "time", "hash")
    for block in reversed(ds.control.index.blocks(table)):
        offsets = "" if block.first_offset is None else f"{block.first_offset}–{block.last_offset}"
        moment = block.system_time.strftime("%H:%M:%S.%f")[:-3]
        grid.add_row(str(block.sequence), block.kind, offsets, moment, f"{block.hash[:13]}")
    console.print(grid)


def prove(ds: sm.DataStore, table: sm.Table) -> None:
    report = ds.verify(replay=True)
    told = (
        f"{report.blocks} blocks, {len(report.findings)} findings, {report.replayed} blocks of the feed computed again"
    )
    console.print(f"  [green]✔[/] {told}")
    slice_ = next((ds.warehouse / table.name / "data").iterdir())
    kept = slice_.read_bytes()
    console.print("  Now one bit of one slice is flipped …")
    slice_.write_bytes(kept[:100] + bytes([kept[100] ^ 1]) + kept[101:])
    for finding in ds.verify(table.name).findings:
        console.print(f"  [red]✘[/] {finding.kind} in block {str(finding.block)[:13]} of '{finding.table}'")
    slice_.write_bytes(kept)
    console.print(f"  … and put back: [green]{'✔ ok' if ds.verify().ok else '✘'}[/]")


if __name__ == "__main__":
    main()
