"""What runs of steps would do, did, and made, as a person likes to read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.syntax import Syntax
from rich.text import Text
from rich.tree import Tree

from seamark.cli.cells import DASH, counted, first_line, is_longer, number, short, under, value
from seamark.cli.grid import Grid, grid
from seamark.cli.render import Parts
from seamark.facts.runs import FAILURES_SHOWN

if TYPE_CHECKING:
    from seamark.cli.verbs.repair import GivenUp, Reset
    from seamark.facts.origins import Origin, Origins
    from seamark.facts.runs import RunResult, StepResult
    from seamark.facts.sinks import PlannedSink, SinkResult
    from seamark.facts.steps import Plan, PlannedStep
    from seamark.facts.trouble import Trouble

_NO_STEPS = "No steps yet: declare one in the pipeline with @ds.transform(…)."
_REASON_LINES = 12  # of a changed definition: more than that is for `run` to show


# --- plan -------------------------------------------------------------------------------------------------------------


def plan(facts: Plan) -> Parts:
    """`plan`."""
    if not facts.steps and not facts.sinks:
        return [_NO_STEPS]
    parts: Parts = []
    for place, step in enumerate(facts.steps):
        parts += [*([Text()] if place else []), *_planned(step)]
    for sink in facts.sinks:
        parts += [*([Text()] if parts else []), *_carried(sink)]
    if not facts.has_work and not facts.is_refused:
        parts.append(Text("\nA run would do nothing.", "green"))
    return parts


def _planned(step: PlannedStep) -> Parts:
    reason, *rest = step.reason.splitlines()
    title = Text(step.step, "bold").append(f"  {step.mode}", _mode_style(step.mode)).append(f": {reason}", "not bold")
    shown: Parts = [title, *[Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in rest[:_REASON_LINES]]]
    if step.is_refused:
        shown.append(f"  `seamark run {step.step}` shows all of it, and what to choose from.")
    if not step.is_idle:
        shown.append(under(f"{_keys(step)} in {_batches(step)} → {', '.join(step.outputs)}"))
    shown += _upstream(step.upstream)
    if step.failed_due:
        shown.append(f"  {counted(step.failed_due, 'failed key')} due for another try")
    if step.failed_waiting:
        waiting = f"{counted(step.failed_waiting, 'failed key')} not due yet: "
        shown.append(under(f"{waiting}`seamark failures {step.step}`, `seamark retry {step.step}`"))
    inputs = grid("input", ">pending", ">after", ">up to", "~leads to keys by", indent=2)
    for entry in step.inputs:
        inputs.add_row(entry.table, number(entry.pending_records), number(entry.after), number(entry.upto), entry.path)
    return [*shown, inputs]


def _keys(step: PlannedStep) -> str:
    """How many keys: exactly, about, or at the most."""
    if step.keys_are_exact:
        return counted(step.keys, "key")
    if step.keys_are_estimated:
        return f"about {counted(step.keys, 'key')} (an estimate)"
    return f"at most {counted(step.keys, 'key')}"


def _batches(step: PlannedStep) -> str:
    """How many batches; of ranges of keys at the most, because keys are counted when they are cut into ranges."""
    batches = counted(step.batches, "batch")
    return f"at most {batches}" if step.mode.takes_all_keys and step.batches > 1 else batches


def _carried(sink: PlannedSink) -> Parts:
    title = Text(sink.sink, "bold").append(f"  {sink.mode}", _mode_style(sink.mode))
    parts: Parts = [title.append(f": {sink.reason}", "not bold")]
    if sink.blocks:
        what = f"{counted(sink.blocks, 'block')} with {counted(sink.records, 'record')} of '{sink.table}'"
        parts.append(under(f"{what} → {sink.target}"))
    return [*parts, *_upstream(sink.upstream)]


def _upstream(steps: tuple[str, ...]) -> Parts:
    return [under(f"and what {', '.join(steps)} will have written by then")] if steps else []


def _mode_style(mode: str) -> str:
    return {"settled": "not bold green", "refused": "bold red", "check": "bold red"}.get(mode, "not bold cyan")


# --- run --------------------------------------------------------------------------------------------------------------


def run(facts: RunResult) -> Parts:
    """`run`."""
    if not facts.steps and not facts.sinks:
        return _left_out(facts) or [_NO_STEPS]
    parts: Parts = [_nothing(facts)]
    if facts.did_something:
        parts = [_counts(facts.steps)] if facts.steps else []
        parts += [*([Text()] if parts and facts.sinks else []), *_sent(facts.sinks)]
    if facts.folded:
        parts.append(Text(f"Folded {', '.join(facts.folded)}.", "dim"))
    for left in facts.not_folded:
        parts.append(Text(f"Not folded: {left.table}, {left.reason}", "dim"))
    for step in facts.steps:
        parts += _trouble(step)
    for sink in facts.sinks:
        parts += _stopped(sink.sink, "could not continue", sink.error)
    return [*parts, *_paused(facts), *_left_out(facts)]


def _paused(facts: RunResult) -> Parts:
    return [
        Text(f"{step.step} is paused: `seamark view resume {step.step}` lets it run again.", "yellow")
        for step in facts.steps
        if step.mode == "paused"
    ]


def _left_out(facts: RunResult) -> Parts:
    parts: Parts = []
    for each in facts.left_out:
        title = Text("\n✗ ", "red").append(each.name, "bold default")
        parts.append(title.append(f" was left out: {each.errors.splitlines()[0]}", "default"))
    if parts:
        parts.append(under("`seamark check` shows all errors of the project's views.", "dim"))
    return parts


def _sent(sinks: tuple[SinkResult, ...]) -> Parts:
    if not sinks:
        return []
    shown = grid("", "sink", "table", ">blocks", ">records", ">seconds")
    for sink in sinks:
        mark = Text("✓", "green") if sink.ok else Text("✗", "red")
        counts = [number(count or None) for count in (sink.blocks, sink.records)]
        shown.add_row(mark, Text(sink.sink, "bold"), sink.table, *counts, f"{sink.seconds:.2f}")
    return [shown]


def _stopped(name: str, what: str, error: Trouble | None) -> Parts:
    if error is None:
        return []
    title = Text("\n✗ ", "red").append(name, "bold default").append(f" {what}: ", "default")
    parts: Parts = [title.append(error.message, "default")]
    if error.hint:
        parts.append(under(Text("Hint: ", "bold cyan").append(error.hint, "not bold default")))
    return parts


def _nothing(facts: RunResult) -> Text:
    if facts.empty_inputs:
        have = "has" if len(facts.empty_inputs) == 1 else "have"
        return Text(f"Nothing to do: {', '.join(facts.empty_inputs)} {have} no records yet.")
    running = [step for step in facts.steps if step.mode != "paused"]
    kinds = ((len(running), "step"), (len(facts.sinks), "sink"))
    what = " and ".join(counted(count, kind) for count, kind in kinds if count)
    if not what:
        return Text("Nothing to do: all is paused.")
    if not facts.ok:
        return Text(f"Nothing to do: no new records for {what}.")
    return Text("✓ ", "green").append(f"Nothing to do: {what} up to date.", "default")


def _counts(steps: tuple[StepResult, ...]) -> Grid:
    shown = grid("", "step", "mode", ">keys", ">batches", ">in", "written", ">failed", ">seconds")
    for step in steps:
        shown.add_row(
            Text("✓", "green") if step.ok and not step.waiting_keys else Text("✗", "red"),
            Text(step.step, "bold"),
            DASH if step.error is not None else step.mode,
            *[number(count or None) for count in (step.keys, step.batches, step.rows_in)],
            _written(step),
            Text(f"{step.failed:,}", "red") if step.failed else DASH,
            f"{step.seconds:.2f}",
        )
    return shown


def _written(step: StepResult) -> Text:
    """New, corrected and retracted rows; a batch may well write nothing."""
    if not step.appended + step.corrected + step.retracted:
        return DASH
    return Text(f"+{step.appended:,} ~{step.corrected:,} -{step.retracted:,}")


def retried(facts: StepResult) -> Parts:
    """`retry`."""
    if not facts.did_something:
        return [f"Step '{facts.step}' has no failed keys."]
    return counts_of(facts)


def counts_of(facts: StepResult) -> Parts:
    """What a run of one step did, and what went wrong."""
    return [_counts((facts,)), *_trouble(facts)]


def _trouble(step: StepResult) -> Parts:
    parts = _stopped(step.step, "could not run", step.error)
    if step.failures:
        what = counted(step.failed, "key")
        parts.append(Text("\n✗ ", "red").append(step.step, "bold default").append(f": {what} failed", "default"))
        shown = step.failures[:FAILURES_SHOWN]
        for failure in shown:
            error = value(first_line(failure.error))
            parts.append(under(key_text(failure.key).append(": ").append_text(error)))
        if len(step.failures) > len(shown):
            parts.append(f"  and {len(step.failures) - len(shown)} more")
        if len(step.failures) > len(shown) or any(is_longer(failure.error) for failure in shown):
            parts.append(under(f"`seamark failures {step.step} --errors` shows all of it.", "dim"))
        verbs = f"`seamark failures {step.step}` says when, `seamark retry {step.step}` does it now."
        parts.append(under(f"Later runs try again: {verbs}", "dim"))
    if step.waiting_keys:
        are = "is" if step.waiting_keys == 1 else "are"
        title = Text("\n✗ ", "red").append(step.step, "bold default")
        title.append(f": {counted(step.waiting_keys, 'key')} {are} still failed from earlier runs", "default")
        verbs = f"`seamark failures {step.step}` shows error and next try, `seamark retry {step.step}` tries now."
        parts += [title, under(verbs, "dim")]
    return parts


def key_text(key: Mapping[str, object]) -> Text:
    """A key as one would ask for it: `post_id=1`."""
    if not key:
        return Text("the one result", "cyan")
    shown = Text()
    for place, (name, item) in enumerate(key.items()):
        shown.append(", " if place else "").append(f"{name}=", "dim").append_text(value(item))
    return shown


# --- repairing --------------------------------------------------------------------------------------------------------


def reset(facts: Reset) -> Parts:
    """`reset`."""
    on = ", ".join(facts.tables)
    line = f"{facts.step} has forgotten how far it was on {on}: {counted(facts.pending_records, 'record')} pending."
    return [Text("✓ ", "green").append(line, "default"), f"  `seamark run {facts.step}` computes all its keys."]


def given_up(facts: GivenUp) -> Parts:
    """`retry --give-up`."""
    if not facts.given_up:
        return [f"Step '{facts.step}' has no failed keys."]
    line = f"{facts.step} has given up {counted(facts.given_up, 'key')}: tried again only when their data changes."
    return [Text("✓ ", "green").append(line, "default")]


# --- why --------------------------------------------------------------------------------------------------------------


def origins(facts: Origins) -> Parts:
    """`why`."""
    parts: Parts = []
    for step, source in facts.definitions.items():
        lines = _HIGHLIGHTER.highlight(source.rstrip()).split("\n")
        code = Text("\n").join(Text("  ").append_text(line) for line in lines)
        code.rstrip()
        parts += [Text("step ", "dim").append(step, "bold"), code, Text()]
    tree = Tree(_origin(facts.row), guide_style="dim")
    _branches(tree, facts.row)
    return [*parts, tree]


_HIGHLIGHTER = Syntax("", "python", theme="ansi_dark", background_color="default")


def _branches(tree: Tree, row: Origin) -> None:
    for behind in row.inputs:
        _branches(tree.add(_origin(behind)), behind)
    if row.omitted:
        tree.add(Text(f"and {counted(row.omitted, 'row')} more: --limit shows them", "dim"))


def _origin(row: Origin) -> Text:
    text = Text(row.table, "bold").append(" ").append_text(key_text(row.key))
    text.append("  offset ", "dim").append(f"{row.offset:,}").append(", block ", "dim").append_text(short(row.block))
    if row.step is not None:
        text.append(", by ", "dim").append(row.step, "bold").append(f" ({row.mode})", "dim")
    values = {name: item for name, item in row.values.items() if name not in row.key}
    if values:
        text.append("\n").append_text(key_text(values))
    return text
