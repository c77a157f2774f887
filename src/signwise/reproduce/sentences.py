"""Sentences of the results that hold numbers: rendered, as the tables are."""

from __future__ import annotations

from collections.abc import Sequence

from signwise.reproduce import paper
from signwise.reproduce.cpu_tables import network_title
from signwise.reproduce.gpu_cost import GPU
from signwise.reproduce.paper_tables import full_results
from signwise.reproduce.record import Record


def summary(records: Sequence[Record]) -> str:
    """What was carried out in full, one line an experiment."""
    lines = []
    for (name, bits, t_alpha), runs in full_results(records).items():
        theirs = paper.reported(name, bits, t_alpha)
        beside = "not in the paper" if theirs is None else f"the paper: {theirs.error:.2f} % (table {theirs.table})"
        setting = f"{bits} bit" if t_alpha is None else f"{bits} bit, T_α {t_alpha:g}"
        seeds = "1 seed" if runs.seeds == 1 else f"{runs.seeds} seeds"
        lines.append(
            f"- **{network_title(runs.recipe)}, {setting}:** {runs.text('best_error')} % at best in "
            f"{runs.recipe.epochs} epochs, {runs.text('last_error')} % after the last ({seeds}); {beside}."
        )
    return "\n".join(lines) or "No experiment has been carried out in full yet."


def absent(records: Sequence[Record]) -> str:
    """What of the paper's results has no measured number beside it."""
    found = full_results(records)
    entries = list({(entry.recipe, entry.bits, entry.t_alpha): entry for entry in (*paper.RESULTS, *paper.T_ALPHA)})
    missing = [key for key in entries if key not in found]
    if not missing:
        return (
            f"All {len(entries)} results of tables {paper.RESULTS_TABLE} and {paper.T_ALPHA_TABLE} are measured here."
        )
    lines = [
        f"Of the {len(entries)} different results in tables {paper.RESULTS_TABLE} and {paper.T_ALPHA_TABLE}, "
        f"{len(entries) - len(missing)} are measured here. Not carried out in full:",
        "",
    ]
    for recipe in dict.fromkeys(name for name, _, _ in missing):
        settings = [
            f"{bits} bit" if t_alpha is None else f"{bits} bit with T_α {t_alpha:g}"
            for name, bits, t_alpha in missing
            if name == recipe
        ]
        model, dataset = recipe.split("-")
        lines.append(f"- {paper.NETWORKS[model]} on {paper.DATASETS[dataset]}: {', '.join(settings)}")
    return "\n".join(lines)


def assumptions() -> str:
    """The arithmetic of the predicted cost."""
    return (
        "hours = steps · max(2 · 3 · MACs an image · images a step / (peak · utilization), floor) / 3600, with\n"
        f"peak = {GPU.peak / 1e12:,.1f} · 10¹² operations a second ({GPU.name}, {GPU.precision}, dense; {GPU.source}), "
        f"utilization = {GPU.utilization:g} (assumed: {GPU.reason}) and floor = {1000 * GPU.floor:g} ms (assumed: the "
        "launch of a step's kernels)."
    )
