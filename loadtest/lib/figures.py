# SPDX-License-Identifier: Apache-2.0
"""The pictures of a run: curves where the load rises over three cells or more, rows of bars and dots elsewhere.

matplotlib is needed when `draw` is called, not to import this. A variant has one colour and marker in all pictures of
a run. Text and axes are of one grey that reads on white and on black; the background is transparent."""

import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from lib import stats
from lib.kept import Run
from lib.report import load_of
from lib.scenario import running
from lib.sweeps import sweeps

INK = "#767676"
# After Okabe and Ito, told apart by the color-blind, without what a white or black background swallows.
COLORS = ("#1F82C4", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#999999", "#8A5A2B",
          "#6B7A00")  # fmt: skip
MARKERS = "osD^vPX*<>"
PAPER = "#ffffff"  # behind what must not merge with lines; the page puts its own background there
NO_INTERVAL = f", which fewer than {stats.ROUNDS_LEAST} rounds have not"
CELLS_MAX = 4  # in one picture of rows: it shall fit on a screen

# Metric, axis, and whether it is a time in microseconds.
BARS = [("requests_per_s", "throughput, requests/s", False), ("server_cpu_us", "server CPU per request, µs", False),
        ("bytes_per_connection", "memory per connection, bytes", False),
        ("rss_growth_kib", "growth of resident memory, KiB", False), ("op_ns", "time of an operation, ns", False),
        ("op_cpu_ns", "CPU of an operation, ns", False), ("peak_rss_kib", "most memory, KiB", False),
        ("idle_percent", "of the workers' time idle, %", False),
        ("steals_per_1000", "steals for each 1,000 tasks", False)]  # fmt: skip
RATIOS = [("requests_per_s", "throughput"), ("server_cpu_us", "CPU per request"), ("p99_us", "p99 latency"),
          ("slow_p99_us", "p99 latency of {second}"), ("bytes_per_connection", "memory per connection"),
          ("op_ns", "time of an operation"), ("op_cpu_ns", "CPU of an operation"), ("peak_rss_kib", "memory")]  # fmt: skip
CURVES = [("p50_us", "median latency", True), ("p99_us", "p99 latency", True),
          ("slow_p99_us", "p99 latency of {second}", True), ("server_cpus", "server, CPUs busy", False)]  # fmt: skip
PERCENTILES = [[("p50_us", "o"), ("p90_us", "d"), ("p99_us", "s"), ("p999_us", "^")],
               [("slow_p50_us", "o"), ("slow_p99_us", "s")]]  # fmt: skip
STYLE = {
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "path",
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.titlecolor": INK, "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9, "figure.titlesize": 9,
    "figure.titleweight": "bold",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": INK, "grid.alpha": 0.25,
    "grid.linewidth": 0.5, "axes.axisbelow": True, "legend.frameon": False,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    stem: str
    caption: str


def load_axis(cells: list[SimpleNamespace]) -> tuple[str, list[float]]:
    if len({cell.value for cell in cells}) == len(cells):
        return cells[0].axis, [cell.value for cell in cells]
    if len({cell.connections for cell in cells}) == len(cells):
        return "connections", [cell.connections for cell in cells]
    busy = " (% of the CPUs busy)" if any(getattr(cell, "busy", None) for cell in cells) else ""
    return f"requests/s asked for{busy}", [cell.rate for cell in cells]


def load_texts(cells: list[SimpleNamespace]) -> list[str]:
    """What the points of a rising load are named by: a calibrated rate by how busy it keeps the CPUs."""
    return [
        f"{cell.busy:.0%}" if getattr(cell, "busy", None) else count_text(load)
        for cell, load in zip(cells, load_axis(cells)[1])
    ]


def title(cell: SimpleNamespace) -> str:
    """What the cells of a sweep have in common."""
    if cell.tool == "program":
        return " ".join(word for word in cell.arguments if "{" not in word)
    asked = [each.path for each in cell.classes] or ([cell.path] if cell.tool == "wrk" else [])
    more = [
        (cell.body, f"{cell.body:,} B"),
        (cell.pipeline > 1, f"{cell.pipeline} deep"),
        (cell.streams > 1, f"{cell.streams} streams"),
    ]
    return " ".join(filter(None, (cell.tool, " + ".join(asked), cell.script, *(text for when, text in more if when))))


def time_text(us: float, _=None) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


def count_text(value: float, _=None) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if abs(value) >= 1e4 else f"{value:,.5g}"


def _range(values: list[float]) -> tuple[float, float, float]:
    """Median and quartiles."""
    return stats.quantile(values, 0.5), stats.quantile(values, 0.25), stats.quantile(values, 0.75)


class _Artist:
    def __init__(self, run: Run, folder: Path):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import patheffects, pyplot, ticker

        self.run, self.folder, self.name = run, folder, run.folder.resolve().name
        self.pyplot, self.ticker = pyplot, ticker
        self.halo = [patheffects.withStroke(linewidth=2.5, foreground=PAPER)]
        pyplot.rcParams.update(STYLE)
        self.variants = run.scenario.variants
        self.look = {
            each.name: (COLORS[i % len(COLORS)], MARKERS[(i + i // len(COLORS)) % len(MARKERS)])
            for i, each in enumerate(self.variants)
        }
        self.made: list[Picture] = []

    def measured(self, cells, metric: str) -> bool:
        return any(self.run.values(cell.name, each.name, metric) for cell in cells for each in self.variants)

    def save(self, figure, stem: str, caption: str) -> None:
        stem = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
        if any(each.stem == stem for each in self.made):
            stem += f"-{len(self.made)}"
        # The same run gives the same bytes, and no two pictures of a page share an identifier.
        self.pyplot.rcParams["svg.hashsalt"] = stem
        drawn = self.folder / f"{stem}.svg"
        figure.savefig(drawn, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
        # Hundredths of a point are enough; what is below 1 may be a scale.
        drawn.write_text(re.sub(r"([1-9]\d*\.\d\d)\d+", r"\1", drawn.read_text()))
        figure.savefig(self.folder / f"{stem}.png", dpi=100, metadata={"Software": None}, bbox_inches="tight")
        self.pyplot.close(figure)
        self.made.append(Picture(stem, caption))

    def scale(self, axis, form, log: bool) -> None:
        """`axis` is one of xaxis and yaxis: from 0, or logarithmic where the range is wide."""
        name = axis.axis_name
        ax, ticks = axis.axes, self.ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        if log:
            getattr(ax, f"set_{name}scale")("log")
            low, high = getattr(ax, f"get_{name}lim")()
            wide = high / low
            if wide < 1.8:
                getattr(ax, f"set_{name}scale")("linear")
            subs = (
                (1,)
                if wide > 1000
                else (1, 3)
                if wide > 100
                else (1, 2, 5)
                if wide > 4
                else (1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
            )
            axis.set_major_locator(self.ticker.LogLocator(subs=subs, numticks=20) if wide > 1.8 else ticks)
            axis.set_minor_locator(self.ticker.NullLocator())
        else:
            getattr(ax, f"set_{name}lim")(0, 1.06 * getattr(ax.dataLim, f"{name}1"))
            axis.set_major_locator(ticks)
        axis.set_major_formatter(self.ticker.FuncFormatter(form))

    def legend(self, figure, cells, hollow: bool) -> None:
        """The heading and one line of names in their colours over all panels."""
        from matplotlib.lines import Line2D

        shown = [
            each.name for each in self.variants
            if any(self.run.values(cell.name, each.name, "requests_per_s") for cell in cells)
        ]  # fmt: skip
        handles = [Line2D([], [], color=self.look[n][0], marker=self.look[n][1], markersize=5, label=n) for n in shown]
        if hollow:
            handles.append(Line2D([], [], color=INK, marker="o", markersize=5, markerfacecolor=PAPER, linestyle="none",
                                  label="hollow: client or CPUs may be the limit"))  # fmt: skip
        figure.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncol=len(handles),
            handlelength=1.6,
            columnspacing=1.4,
            title=f"{title(cells[0])}, {self.name}",
            title_fontproperties={"size": 9, "weight": "bold"},
            alignment="left",
        )

    # Curves.

    def curves(self, cells) -> None:
        panels = [panel for panel in CURVES if self.measured(cells, panel[0])]
        if not self.measured(cells, "requests_per_s") or not panels:
            return
        figure, axes = self.pyplot.subplots(
            1, len(panels), figsize=(3.7 * len(panels), 3.5), layout="constrained", squeeze=False
        )
        figure.get_layout_engine().set(w_pad=0.12)
        loads, marked = load_axis(cells), False
        for ax, (metric, label, is_time) in zip(axes[0], panels):
            for each in self.variants:
                marked |= self._curve(ax, cells, each, metric)
            ax.set_ylabel(label.format(second=_second(cells[0])))
            ax.set_xlabel("throughput, requests/s" + loads[0].partition(" asked for")[2])
            ax.margins(x=0.14)
            near = ax.dataLim.x0 > ax.dataLim.x1 / 3  # to each other: from 0 they would share a corner
            low, high = ax.get_xlim()
            self.scale(ax.xaxis, count_text, log=False)
            ax.set_xlim(*((low, high) if near else (0, high)))
            self.scale(ax.yaxis, time_text if is_time else count_text, log=is_time)
            if is_time:
                self._name_points(ax, cells, metric)
        self.legend(figure, cells, marked)
        caption = f"{title(cells[0])}: each line is a server under {', '.join(map(count_text, loads[1]))} {loads[0]}, "
        caption += "in this order. Points are medians over the rounds, bars reach from the first to the third quartile."
        if marked:
            caption += " Hollow: not the server but the client, or shared CPUs, may be the limit."
        self.save(figure, f"curves {title(cells[0])}", caption)

    def _curve(self, ax, cells, variant, metric: str) -> bool:
        color, marker = self.look[variant.name]
        points, bars, hollow = [], [], False
        for cell in cells:
            x, y = (self.run.values(cell.name, variant.name, of) for of in ("requests_per_s", metric))
            if not x or not y:
                continue
            (x, x_low, x_high), (y, y_low, y_high) = _range(x), _range(y)
            points.append((x, y))
            bars.append((x - x_low, x_high - x, y - y_low, y_high - y))
            limited = bool(self.run.limit(cell, variant))
            hollow |= limited
            face = PAPER if limited else color
            ax.plot(x, y, color=color, marker=marker, markersize=5, linestyle="none", zorder=4, markerfacecolor=face)
        if points:
            left, right, down, up = zip(*bars)
            ax.errorbar(*zip(*points), xerr=[left, right], yerr=[down, up], color=color, elinewidth=0.8, alpha=0.6,
                        fmt="none", zorder=2)  # fmt: skip
            ax.plot(*zip(*points), color=color, linewidth=1.2, zorder=3)
        return hollow

    def _name_points(self, ax, cells, metric: str) -> None:
        """The load beside the points of the first server that has them all, on the side where it hides fewer others."""
        others = [ax.transData.transform(line.get_xydata()[0]) for line in ax.lines if len(line.get_xydata()) == 1]
        for each in self.variants:
            points = [[self.run.middle(c.name, each.name, of) for of in ("requests_per_s", metric)] for c in cells]
            if all(value is not None for point in points for value in point):
                for point, text in zip(points, load_texts(cells)):
                    x, y = ax.transData.transform(point)
                    hidden = {to: sum(0 < to * (a - x) < 40 and abs(b - y) < 8 for a, b in others) for to in (-1, 1)}
                    near = point[0] < sum(ax.get_xlim()) / 2  # to the left of the panel, whose side is freer
                    left = (hidden[-1], not near) < (hidden[1], near)
                    aside = (-6, 0) if left else (6, -1)
                    ax.annotate(text, point, textcoords="offset points", xytext=aside,
                                ha="right" if left else "left", va="center", fontsize=7.5, zorder=6,
                                color=self.look[each.name][0], path_effects=self.halo)  # fmt: skip
                return

    def over_load(self, cells) -> None:
        """CPU per request and the ratios to the baseline over the load, lines named at their ends."""
        baseline = self.run.scenario.baseline
        panels = [("server_cpu_us", "server CPU per request, µs", None), ("op_ns", "time of an operation, ns", None),
                  ("idle_percent", "of the workers' time idle, %", None)]  # fmt: skip
        if baseline and any(self.run.values(cell.name, baseline, "op_ns" if cell.tool == "program" else "requests_per_s")
                            for cell in cells):  # fmt: skip
            panels += [(metric, label, baseline) for metric, label in _ratio_panels(cells, baseline)]
        panels = [panel for panel in panels if self.measured(cells, panel[0])]
        if not panels:
            return
        name, loads = load_axis(cells)
        ticks = [count_text(load) for load in loads]
        ticks = [text if text == tick else f"{tick}\n{text}" for tick, text in zip(ticks, load_texts(cells))]
        is_log = loads[-1] > 5 * loads[0]
        columns = min(len(panels), 2)
        rows = -(-len(panels) // columns)
        figure, axes = self.pyplot.subplots(
            rows, columns, figsize=(5.6 * columns, 3.1 * rows), layout="constrained", squeeze=False
        )
        figure.suptitle(f"{title(cells[0])}, {self.name}", x=0.01, ha="left")
        for ax in axes.flat[len(panels) :]:
            ax.remove()
        for ax, (metric, label, versus) in zip(axes.flat, panels):
            ends = []
            for number, each in enumerate(self.variants):
                if versus == each.name:
                    continue
                points = [(load, self._estimate(cell, each, metric, versus)) for load, cell in zip(loads, cells)]
                aside = 0.004 * (number - len(self.variants) / 2)  # of the axis, so that bars do not cover each other
                aside = (loads[-1] / loads[0]) ** aside if is_log else 1 + aside
                points = [(load * aside, *found) for load, found in points if found]
                if points:
                    x, y, low, high = zip(*points)
                    color, marker = self.look[each.name]
                    ax.errorbar(x, y, [[a - b for a, b in zip(y, low)], [b - a for a, b in zip(y, high)]], color=color,
                                marker=marker, markersize=4.5, linewidth=1.2, elinewidth=0.8)  # fmt: skip
                    ends.append((x[-1], y[-1], each.name, color))
            if versus:
                ax.axhline(1, color=INK, linewidth=1)
            ax.set_xlabel(name)
            ax.set_ylabel(label)
            ax.set_xscale("log" if is_log else "linear")
            ax.set_xticks(loads, ticks)
            ax.xaxis.set_minor_locator(self.ticker.NullLocator())
            wide = not versus and ends and ax.dataLim.y0 > 0 and ax.dataLim.y1 > 30 * ax.dataLim.y0
            self.scale(ax.yaxis, count_text, log=bool(versus or wide))
            self._name_ends(figure, ax, ends)
        caption = f"{title(cells[0])}: over rising {name}. "
        if any(versus for _, _, versus in panels):
            caption += f"Ratios are to {baseline} of the same round: medians with their 95 % bootstrap interval"
            caption += f"{NO_INTERVAL}. "
        self.save(figure, f"by-load {title(cells[0])}", caption + "Others: medians and quartiles over the rounds.")

    def _estimate(self, cell, variant, metric: str, versus: str | None):
        """A point and how far its bar reaches, which is nowhere where there is no interval."""
        if not versus:
            values = self.run.values(cell.name, variant.name, metric)
            return _range(values) if values else None
        found = self.run.ratio(cell.name, variant.name, versus, metric)
        if found and found.is_range:
            return found.median, found.median, found.median
        return (found.median, found.low, found.high) if found else None

    @staticmethod
    def _name_ends(figure, ax, ends) -> None:
        """Names at the right of the last points, moved apart where they would cover each other."""
        figure.draw_without_rendering()
        gap = 11 / 72 * figure.dpi
        ends = sorted((ax.transData.transform((x, y))[1], y, name, color) for x, y, name, color in ends)
        places = [end[0] for end in ends]
        for _ in range(50):
            for i in range(1, len(places)):
                over = gap - (places[i] - places[i - 1])
                if over > 0.1:
                    places[i - 1] -= over / 2
                    places[i] += over / 2
        for place, (_, _, name, color) in zip(places, ends):
            ax.annotate(name, (1, ax.transAxes.inverted().transform((0, place))[1]), xycoords="axes fraction",
                        xytext=(6, 0), textcoords="offset points", va="center", fontsize=8, color=color)  # fmt: skip

    # Rows: one of panels for each cell, in each panel a line for each server.

    def rows(self, cells, panels, draw, finish, stem: str, caption: str) -> None:
        """`draw` puts one server's figures into a panel, `finish` scales a column of panels, which share their axis.
        All cells have the servers of the first one."""
        panels = [panel for panel in panels if self.measured(cells, panel[0])]
        if not panels:
            return
        variants = running(self.variants, cells[0])
        size = (1.2 + 3.6 * len(panels), 0.3 + (0.62 + 0.23 * len(variants)) * len(cells))
        figure, axes = self.pyplot.subplots(
            len(cells), len(panels), figsize=size, layout="constrained", squeeze=False, sharex="col", sharey="row"
        )
        figure.suptitle(self.name, x=0.01, ha="left")
        names = [each.name for each in variants]
        for row, cell in zip(axes, cells):
            row[0].set_yticks(range(len(names)), names)
            row[0].set_ylim(len(names) - 0.4, -0.6)
            asked = f" of {cell.path}" if cell.tool == "wrk" else ""
            row[0].set_title(f"{cell.name}: {load_of(cell)}{asked}", loc="left", fontweight="bold")
            for ax, panel in zip(row, panels):
                for place, each in enumerate(variants):
                    draw(ax, place, cell, each, panel)
                ax.tick_params(axis="y", length=0)
                ax.grid(axis="y", visible=False)
        for column, panel in zip(axes.T, panels):
            finish(column[0], min(ax.dataLim.x0 for ax in column), max(ax.dataLim.x1 for ax in column))
            column[-1].set_xlabel(panel[1])
            for ax in column:
                ax.tick_params(axis="x", labelbottom=True)
        for row in axes:
            for tick, each in zip(row[0].get_yticklabels(), variants):
                tick.set_color(self.look[each.name][0])
        self.save(figure, stem, caption)

    def bar(self, ax, place, cell, variant, panel) -> None:
        values = self.run.values(cell.name, variant.name, panel[0])
        if not values:
            return
        middle, low, high = _range(values)
        ax.barh(place, middle, 0.62, color=self.look[variant.name][0], alpha=0.45)
        ax.plot(values, [place] * len(values), "|", color=self.look[variant.name][0], markersize=6, markeredgewidth=0.8)
        ax.plot([low, high], [place, place], color=INK, linewidth=1.6)
        limit = self.run.limit(cell, variant) if panel[0] in ("requests_per_s", "server_cpu_us") else ""
        form = f"{middle:.2f}" if middle < 100 else f"{middle:,.0f}"
        ax.annotate(form + (" *" if limit else ""), (max(*values, middle), place), xytext=(4, 0), va="center",
                    textcoords="offset points", fontsize=7.5, color=INK)  # fmt: skip

    def finish_bars(self, ax, low: float, high: float) -> None:
        self.scale(ax.xaxis, count_text, log=False)
        ax.set_xlim(min(0, low), 1.2 * high or 1)  # room for the figures

    def ratio(self, ax, place, cell, variant, panel) -> None:
        baseline = self.run.scenario.baseline
        values = self.run.ratios(cell.name, variant.name, baseline, panel[0])
        color, marker = self.look[variant.name]
        ax.axvline(1, color=INK, linewidth=0.8)
        if variant.name == baseline and values:
            ax.plot(1, place, marker, color=color, markersize=6, markerfacecolor="none")
        found = self.run.ratio(cell.name, variant.name, baseline, panel[0])
        if variant.name == baseline or not found:
            return
        ax.plot(values, [place] * len(values), "|", color=color, markersize=5, markeredgewidth=0.7, alpha=0.7)
        if not found.is_range:
            ax.plot([found.low, found.high], [place, place], color=color, linewidth=2)
        ax.plot(found.median, place, marker, color=color, markersize=6)

    def finish_ratios(self, ax, low: float, high: float) -> None:
        ax.set_xlim(min(0.9, low / 1.1), max(1.1, high * 1.1))
        self.scale(ax.xaxis, count_text, log=True)

    def percentiles(self, ax, place, cell, variant, panel) -> None:
        color = self.look[variant.name][0]
        found = [(_range(values), marker) for metric, marker in panel[2]
                 if (values := self.run.values(cell.name, variant.name, metric))]  # fmt: skip
        if found:
            ax.plot([found[0][0][0], found[-1][0][0]], [place, place], color=color, linewidth=0.8, alpha=0.6)
        for (middle, low, high), marker in found:
            ax.plot([low, high], [place, place], color=color, linewidth=2.5, alpha=0.5)
            ax.plot(middle, place, marker, color=color, markersize=5)

    def finish_percentiles(self, ax, low: float, high: float) -> None:
        ax.set_xlim(low / 1.2, high * 1.2)
        self.scale(ax.xaxis, time_text, log=True)


def _second(cell) -> str:
    return f"“{cell.classes[1].name}”" if len(cell.classes) > 1 else "the second class"


def _ratio_panels(cells, baseline: str) -> list[tuple[str, str]]:
    """An open loop's throughput is what was asked for."""
    of = {metric: text.format(second=_second(cells[0])) for metric, text in RATIOS}
    if all(cell.rate for cell in cells):
        del of["requests_per_s"]
    return [(metric, f"{text} / {baseline}") for metric, text in of.items()]


def _latency_panels(cell, measured) -> list[tuple]:
    """Of the percentiles that were measured; a tool may have fewer."""
    signs = {"o": "●", "d": "♦", "s": "■", "^": "▲"}
    panels = []
    for number, all_of in enumerate(PERCENTILES):
        group = [each for each in all_of if measured(each[0])]
        if not group:
            continue
        of = f" of “{cell.classes[number].name}”" if len(cell.classes) > 1 else ""
        named = ", ".join(
            f"{signs[sign]} {metric.replace('slow_', '')[1:-3].replace('999', '99.9')} %" for metric, sign in group
        )
        panels.append((group[0][0], f"latency{of}\n{named}", group))
    return panels


def draw(run: Run, folder: Path) -> list[Picture]:
    """Writes FOLDER/*.svg and *.png; ImportError where matplotlib is missing."""
    artist = _Artist(run, folder)
    rising, others = sweeps(run.scenario.cells)
    for group in rising:
        artist.curves(group)
        artist.over_load(group)
    chunks: list[list] = []
    for cell in others:
        alike = chunks and len(chunks[-1]) < CELLS_MAX and chunks[-1][0].tool == cell.tool
        alike = alike and chunks[-1][0].variants == cell.variants
        alike = alike and [each.name for each in chunks[-1][0].classes] == [each.name for each in cell.classes]
        chunks[-1].append(cell) if alike else chunks.append([cell])
    for cells in chunks:
        name = " ".join(cell.name for cell in cells)
        asked = all(cell.rate for cell in cells)  # an open loop's throughput
        artist.rows(cells, BARS[asked:], artist.bar, artist.finish_bars, f"costs {name}",
                    "Bars are medians over the rounds, each tick is a round, the dark line reaches from the first to "
                    "the third quartile. * not the server, but client or shared CPUs may be the limit.")  # fmt: skip
        panels = _latency_panels(cells[0], lambda metric, cells=cells: artist.measured(cells, metric))
        artist.rows(cells, panels, artist.percentiles, artist.finish_percentiles, f"latency {name}",
                    "Latency percentiles, medians over the rounds; the broad line reaches from the first to the third "
                    "quartile of the rounds.")  # fmt: skip
        if run.scenario.baseline:
            panels = _ratio_panels(cells, run.scenario.baseline)
            artist.rows(cells, panels, artist.ratio, artist.finish_ratios, f"ratios {name}",
                        f"Ratios to {run.scenario.baseline} of the same round: each tick is a round, the sign is their "
                        f"median, the line its 95 % bootstrap interval{NO_INTERVAL}.")  # fmt: skip
    return artist.made
