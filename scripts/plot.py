#!/usr/bin/python3
"""Draws poslab's documents.

    poslab table --format json | scripts/plot.py -o table.png
    poslab extend --rope-type all --format ndjson | scripts/plot.py -o extend.pdf
    poslab shuffle-test --sweep seq_len=8:512:*2 --format ndjson | scripts/plot.py -o sweep.svg --y max_abs_diff

Reads a document, several of them, or an NDJSON stream, from files or standard input. The ending of --output picks
PNG, SVG or PDF. What is drawn follows from the documents: a heat map for rows of vectors, curves for rows of numbers,
several panels for `extend`, and lines over the swept parameter for a sweep.
"""

import argparse
import json
import math
import os
import sys
import typing

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker
except ImportError:
    sys.exit("plot.py: matplotlib is missing: apt-get install python3-matplotlib")

MAX_OVERLAID = 24  # curves in one figure; more documents than this are drawn as a sweep
KNOWN_ENDINGS = (".png", ".svg", ".pdf")


class View(typing.NamedTuple):
    """What readers of a subcommand expect to see; other rows are drawn against their first field."""
    x: str | None = None
    y: str | None = None
    inner_x: str | None = None  # goes across instead where all rows share one x
    groups: tuple = ()  # row fields that tell several curves of one document apart
    beside: str | None = None  # a dashed curve on an axis of its own
    log_y: bool = False
    title: tuple = ("model", "encoding", "rope_type")  # settings that the title names, as they were resolved


VIEWS = {
    "table": View(title=("encoding", "d_model")),
    "shuffle-test": View("position", "max_abs_diff", title=("encoding", "mask")),
    "rotate": View("pair", "pair_angle", title=("layout", "rope_type", "rope_theta")),
    "rope-score": View("distance", "score", beside="decay_bound",
                       title=("model", "layout", "rope_type", "head_dim", "rope_theta")),
    "extend": View(title=("model", "rope_type", "factor", "rope_theta")),
    "plan": View("method", "logit_multiplier", title=("model", "factor")),
    "bound": View("base_from", "base_to", title=("model", "rope_type", "seq_len", "rotary_dim")),
    "precision": View("position", "max_abs_error", groups=("profile",), log_y=True,
                      title=("layout", "head_dim", "rope_theta")),
    "cache-test": View("step", "score_diff", log_y=True),
    "train": View("step", "loss"),
    "perplexity": View("length", "mean_nll", "position_last", ("control",)),
    "recall": View("length", "accuracy", groups=("distance",)),
    "extrapolate": View("length", "mean_nll", groups=("encoding", "scaling", "extra_steps"), title=("task", "steps")),
}


class BadInput(Exception):
    """One line for the user."""


# ---------------------------------------------------------------------------------------------------------- reading


def parse_documents(text, name):
    """Every document of a text: pretty-printed, one per line, concatenated, or in one array."""
    decoder = json.JSONDecoder()
    documents = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            break
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise BadInput(f"{name}, line {error.lineno}: not JSON ({error.msg}); ask poslab for --format json or "
                           "ndjson") from None
        except RecursionError:
            raise BadInput(f"{name}: nested too deeply") from None
        documents.extend(value if isinstance(value, list) else [value])
    if not documents:
        raise BadInput(f"{name} holds no document")
    for document in documents:
        check_document(document, name)
    return documents


def check_document(document, name):
    if not isinstance(document, dict) or "experiment" not in document or "schema" not in document:
        raise BadInput(f"{name}: not a poslab document (it has no schema and experiment)")
    if document["schema"] != 1:
        raise BadInput(f"{name}: schema {document['schema']!r} is unknown; this script knows 1")
    for key, kind in (("params", dict), ("summary", dict), ("rows", list), ("fields", dict)):
        if not isinstance(document.setdefault(key, kind()), kind):
            raise BadInput(f"{name}: '{key}' must be {'an object' if kind is dict else 'a list'}")
    if not all(isinstance(row, dict) for row in document["rows"]):
        raise BadInput(f"{name}: every row must be an object")


def read_documents(paths):
    documents = []
    for path in paths or ["-"]:
        name = "standard input" if path == "-" else path
        try:
            raw = sys.stdin.buffer.read() if path == "-" else open(path, "rb").read()
            documents += parse_documents(raw.decode("utf-8"), name)
        except OSError as error:
            raise BadInput(f"cannot read {name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadInput(f"{name} is not UTF-8 text") from None
    experiments = sorted({d["experiment"] for d in documents})
    if len(experiments) > 1:
        raise BadInput(f"documents of several experiments ({', '.join(experiments)}) share no axes; plot each alone")
    return documents


# ------------------------------------------------------------------------------------------------------ values, words


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_drawable(value):
    return isinstance(value, (int, float))


def number(value):
    """A point of a curve: no is 0, yes is 1; what is absent or not finite leaves a gap."""
    return float(value) if is_drawable(value) else math.nan


def is_vector(value):
    return isinstance(value, list) and len(value) > 0 and all(is_number(v) or v is None for v in value)


def label(field, document):
    """The name of a field in words, with its unit where the document tells it."""
    unit = document["fields"].get(field)
    words = field.replace("_", " ")
    return words if not unit or unit in words.split() else f"{words} ({unit})"


def word(value):
    """A parameter's value as a person would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(word(v) for v in value)
    return str(value)


def key(value):
    """A hashable stand-in for a parameter's value."""
    return json.dumps(value, sort_keys=True)


def varying_params(documents):
    """Names of the parameters that differ between documents, in the order of the first document."""
    names = list(documents[0]["params"])
    return [n for n in names if len({key(d["params"].get(n)) for d in documents}) > 1]


def setting(document, names):
    return ", ".join(f"{n.replace('_', ' ')} {word(document['params'].get(n))}" for n in names)


def title_of(documents):
    """The experiment and its main settings, in one line."""
    first, varying = documents[0], varying_params(documents)

    def resolved(name):
        value = first["params"].get(name)
        return value if value is not None else first["summary"].get(f"resolved_{name}")

    told = [n for n in view_of(documents).title if n not in varying and resolved(n) is not None]
    said = ", ".join(f"{n.replace('_', ' ')} {word(resolved(n))}" for n in told)
    return first["experiment"] + (f": {said}" if said else "")


def view_of(documents):
    return VIEWS.get(documents[0]["experiment"], View())


def columns_of(rows, accepts):
    """Fields that hold an accepted value in some row, in the order of first appearance."""
    names = {}
    for row in rows:
        for name, value in row.items():
            if name not in names and accepts(value):
                names[name] = True
    return list(names)


def wants_log(values):
    finite = [v for v in values if math.isfinite(v)]
    return len(set(finite)) > 2 and min(finite) > 0 and max(finite) / min(finite) >= 50


def powers_of_two(values):
    return all(v > 0 and math.log2(v).is_integer() for v in values)


# ------------------------------------------------------------------------------------------------------------ drawing


def figure(panels=1, wide=False):
    columns = 2 if panels > 1 else 1
    lines = math.ceil(panels / columns)
    fig, axes = plt.subplots(lines, columns, squeeze=False, layout="constrained",
                             figsize=((10 if columns > 1 or wide else 7), 3.4 * lines + 1.2))
    flat = list(axes.flat)
    for extra in flat[panels:]:
        extra.remove()
    return fig, flat[:panels]


def legend(axes):
    """Only where there is something to tell apart."""
    names = axes.get_legend_handles_labels()[1]
    if len(names) > 1:
        axes.legend(fontsize="small", ncols=1 if len(names) <= 12 else 2)


def scale_x(axes, values, asked):
    if asked or (asked is None and wants_log(values)):
        axes.set_xscale("log", base=2 if powers_of_two(values) else 10)
    elif all(isinstance(v, int) for v in values):
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))


def heat_map(document, field):
    """Rows of vectors: the row's place across, the vector's dimension down."""
    rows = [r for r in document["rows"] if is_vector(r.get(field))]
    if len({len(r[field]) for r in rows}) > 1:
        raise BadInput(f"the rows' '{field}' differ in length; a heat map needs a rectangle")
    place = next((n for n in columns_of(rows, is_number) if n != field), None)
    picture = [[number(row[field][d]) for row in rows] for d in range(len(rows[0][field]))]
    first, last = (rows[0][place], rows[-1][place]) if place else (0, len(rows) - 1)
    if last == first and len(rows) > 1:
        first, last, place = 0, len(rows) - 1, None
    half = abs(last - first) / max(1, len(rows) - 1) / 2 or 0.5
    extreme = max((abs(v) for line in picture for v in line if math.isfinite(v)), default=1.0) or 1.0

    fig, (axes,) = figure(wide=True)
    image = axes.imshow(picture, aspect="auto", cmap="coolwarm", vmin=-extreme, vmax=extreme, interpolation="nearest",
                        extent=(first - half, last + half, len(picture) - 0.5, -0.5))
    axes.set_xlabel(label(place, document) if place else "row")
    axes.set_ylabel("dimension" if field == "values" else f"{field.replace('_', ' ')}: index")
    fig.colorbar(image, ax=axes, label=label(field, document) if document["fields"].get(field) else "value")
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.set_title(title_of([document]))
    return fig


def curves_of(document, x, groups, brief):
    """(name, rows by x) of each curve of one document; rows without a place are left out. brief: what is false goes
    unsaid, since there is more to the name."""
    curves = {}
    for row in document["rows"]:
        if is_number(row.get(x)):
            curves.setdefault(tuple(row.get(g) for g in groups), []).append(row)
    for values, rows in curves.items():
        words = [f"{g.replace('_', ' ')} {word(v)}" if isinstance(v, (bool, int, float)) else word(v)
                 for g, v in zip(groups, values) if not (brief and v is False)]
        yield ", ".join(words), sorted(rows, key=lambda r: r[x])


def row_curves(documents, x, y, options):
    """Rows of numbers as curves, one per document and group."""
    view = view_of(documents)
    rows = [r for d in documents for r in d["rows"]]
    groups = [g for g in view.groups if g not in (x, y) and len({key(r.get(g)) for r in rows}) > 1]
    varying = varying_params(documents)
    fig, (axes,) = figure()
    curves = [dict(curves_of(document, x, groups, brief=bool(varying))) for document in documents]

    def same_in_all(name):
        points = [[(r[x], r.get(y)) for r in own.get(name, ())] for own in curves]
        return name and len(points) > 1 and all(p == points[0] for p in points)

    for i, (document, own) in enumerate(zip(documents, curves)):
        for name, members in own.items():
            if same_in_all(name):  # what the swept parameters do not touch is drawn once
                if i == 0:
                    draw_curve(axes, members, x, y, name)
            else:
                draw_curve(axes, members, x, y, ", ".join(filter(None, [setting(document, varying), name])))
    if view.beside and y != view.beside and x == view.x:
        draw_beside(axes, documents, x, view.beside)
    if x in ("length", view.inner_x) and (trained := trained_length(documents)):
        axes.axvline(trained, linestyle=":", color="black", label=f"trained length {trained}")
    scale_x(axes, [r[x] for r in rows if is_number(r.get(x))], options.log_x)
    if options.log_y or (options.log_y is None and view.log_y):
        axes.set_yscale("log")
    axes.set_xlabel(label(x, documents[0]))
    axes.set_ylabel(label(y, documents[0]))
    axes.set_title(title_of(documents))
    legend(axes)
    return fig


def draw_beside(axes, documents, x, field):
    """A companion of the curves with a scale of its own, on the right."""
    curves = [sorted((r[x], r[field]) for r in d["rows"] if is_number(r.get(x)) and is_number(r.get(field)))
              for d in documents]
    if any(curves):
        right = axes.twinx()
        for points in filter(None, curves):
            right.plot(*zip(*points), linestyle="--", linewidth=1, color="grey")
        right.set_ylabel(label(field, documents[0]) + " (dashed)")


def bars(document, x, y):
    """Rows that are told apart by a word."""
    rows = [r for r in document["rows"] if isinstance(r.get(x), str) and is_drawable(r.get(y))]
    fig, (axes,) = figure()
    axes.barh([r[x] for r in rows], [number(r[y]) for r in rows])
    axes.invert_yaxis()
    axes.set_xlabel(label(y, document))
    axes.set_ylabel(label(x, document))
    axes.set_title(title_of([document]))
    return fig


def draw_curve(axes, rows, x, y, name):
    """A line through the rows; where a place has several (seeds), every row as a dot and the line through the means."""
    at = {}
    for row in rows:
        at.setdefault(row[x], []).append(number(row.get(y)))
    places = list(at)
    means = [mean(at[p]) for p in places]
    line, = axes.plot(places, means, marker="o" if len(places) <= 64 else None, markersize=3.5, label=name or None)
    if len(places) < len(rows):
        axes.plot([r[x] for r in rows], [number(r.get(y)) for r in rows], linestyle="none", marker=".", markersize=3,
                  color=line.get_color(), alpha=0.6)
    if all(is_number(r.get("low")) and is_number(r.get("high")) for r in rows):
        last = {r[x]: r for r in rows}
        axes.fill_between(places, [last[p]["low"] for p in places], [last[p]["high"] for p in places],
                          color=line.get_color(), alpha=0.15, linewidth=0)
    elif all(is_number(r.get("stderr")) for r in rows) and len(places) == len(rows):
        axes.errorbar(places, means, yerr=[r["stderr"] for r in rows], fmt="none", color=line.get_color(), capsize=2)


def mean(values):
    known = [v for v in values if math.isfinite(v)]
    return math.fsum(known) / len(known) if known else math.nan


def trained_length(documents):
    for source in ("summary", "params"):
        for name in ("trained_length", "original_max_position_embeddings", "train_length"):
            values = {d[source].get(name) for d in documents}
            if len(values) == 1 and is_number(value := values.pop()):
                return value
    return None


def extend_panels(documents):
    """What a scaling does pair by pair, for one or several methods, and the score curve that follows from it."""
    needed = ("pair", "wavelength", "multiplier", "turns_in_training", "inv_freq", "scaled_inv_freq")
    for document in documents:
        if not document["rows"] or any(n not in document["rows"][0] for n in needed):
            raise BadInput(f"the rows of an extend document need {', '.join(needed)}")
    first = documents[0]
    varying = varying_params(documents)

    def name(document):
        if varying == ["rope_type"]:
            return word(document["params"]["rope_type"])
        return setting(document, varying) or word(document["summary"].get("resolved_rope_type", "after"))

    fig, panels = figure(4)
    wavelength, multiplier, turns, score = panels
    same_before = len({key([r["inv_freq"] for r in d["rows"]]) for d in documents}) == 1
    for document in documents:
        rows = document["rows"]
        pairs = [r["pair"] for r in rows]
        scaled = [number(r["scaled_inv_freq"]) for r in rows]
        before = dict(linestyle="--", color="grey", linewidth=1)
        if document is first or not same_before:
            wavelength.plot(pairs, [number(r["wavelength"]) for r in rows], label="before", **before)
            score.plot(*score_curve(document, "inv_freq"), label="before", **before)
        line, = wavelength.plot(pairs, [2 * math.pi / w if w > 0 else math.nan for w in scaled], label=name(document))
        colour = line.get_color()
        multiplier.plot(pairs, [number(r["multiplier"]) for r in rows], color=colour, label=name(document))
        turns.plot(pairs, [number(r["turns_in_training"]) for r in rows], color=colour, label=name(document))
        score.plot(*score_curve(document, "scaled_inv_freq"), color=colour, label=name(document))
    wavelength.set_yscale("log")
    turns.set_yscale("log")
    turns.axhline(1, linestyle=":", color="black", linewidth=1)
    for axes, field in ((wavelength, "wavelength"), (multiplier, "multiplier"), (turns, "turns_in_training")):
        axes.set_xlabel(label("pair", first))
        axes.set_ylabel(label(field, first))
    score.set_xscale("symlog", linthresh=1)
    score.set_xlabel("distance (tokens)")
    score.set_ylabel("score of equal vectors (1 at distance 0)")
    legend(wavelength)
    fig.suptitle(title_of(documents))
    return fig


def score_curve(document, field):
    """Mean of cos(distance * frequency) over the pairs: the score of equal vectors, as a share of distance 0."""
    frequencies = [number(r[field]) for r in document["rows"]]
    params, summary = document["params"], document["summary"]
    reach = [s.get(n) for s in (params, summary)
             for n in ("seq_len", "target_length", "max_position_embeddings", "original_max_position_embeddings")]
    longest = max([v for v in reach if is_number(v)], default=4096)
    # Evenly spaced in the logarithm: the first few tokens and the far end matter alike.
    distances = sorted({0} | {round(longest ** (i / 400)) for i in range(401)})
    return distances, [math.fsum(math.cos(d * w) for w in frequencies) / len(frequencies) for d in distances]


def sweep_lines(documents, options):
    """One number of the summary over the swept parameter; the other swept parameters tell the lines apart."""
    summary_fields = columns_of([d["summary"] for d in documents], is_number)
    if not summary_fields:
        raise BadInput("no field of the summary is a number, so a sweep has nothing to draw")
    if options.y:
        y = options.y
    else:  # the first that the sweep changes
        changed = [f for f in summary_fields if len({key(d["summary"].get(f)) for d in documents}) > 1]
        y = (changed or summary_fields)[0]
    varying = varying_params(documents)
    if not varying:
        raise BadInput(f"{len(documents)} documents with the same parameters: nothing was swept")
    numeric = [n for n in varying if all(is_number(d["params"].get(n)) and not isinstance(d["params"][n], bool)
                                         for d in documents)]
    x = options.x or (numeric or varying)[-1]
    if x not in varying:
        raise BadInput(f"'{x}' is not a swept parameter; these are: {', '.join(varying)}")
    others = [n for n in varying if n != x]

    lines = {}
    for document in documents:
        lines.setdefault(setting(document, others), []).append(document)
    fig, (axes,) = figure()
    if x in numeric:
        for name, members in lines.items():
            members.sort(key=lambda d: d["params"][x])
            axes.plot([d["params"][x] for d in members], [number(d["summary"].get(y)) for d in members], marker="o",
                      markersize=3.5, label=name or None)
        scale_x(axes, [d["params"][x] for d in documents], options.log_x)
    else:
        words = list(dict.fromkeys(word(d["params"].get(x)) for d in documents))
        for name, members in lines.items():
            axes.plot([words.index(word(d["params"].get(x))) for d in members],
                      [number(d["summary"].get(y)) for d in members], marker="o",
                      linestyle="none" if len(lines) == 1 else "-", label=name or None)
        axes.set_xticks(range(len(words)), words, rotation=30 if max(map(len, words)) > 8 else 0)
    if options.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(label(x, documents[0]))
    axes.set_ylabel(label(y, documents[0]))
    axes.set_title(title_of(documents))
    legend(axes)
    return fig


# ------------------------------------------------------------------------------------------------------------ choosing


def draw(documents, options):
    """The figure for these documents."""
    experiment = documents[0]["experiment"]
    rows = [r for d in documents for r in d["rows"]]
    numbers = columns_of(rows, is_number)
    vectors = columns_of(rows, is_vector)
    several = len(documents) > 1
    known = columns_of(rows, is_drawable) + vectors
    if several:
        known += columns_of([d["summary"] for d in documents], is_drawable)
    if options.y and options.y not in known:
        raise BadInput(f"no number is called '{options.y}'; there are: {', '.join(known) or 'none'}")

    if several and (options.y and options.y not in numbers or not rows or len(documents) > MAX_OVERLAID):
        return sweep_lines(documents, options)
    if not rows:
        raise BadInput(f"a {experiment} document without rows has nothing to draw; a sweep of it has")
    if experiment == "extend" and not options.y:
        return extend_panels(documents)
    if vectors and (options.y in vectors or not options.y and len(numbers) < 2):
        if several:
            return sweep_lines(documents, options)
        return heat_map(documents[0], options.y or ("values" if "values" in vectors else vectors[0]))
    view = view_of(documents)
    inner = view.inner_x if len({r.get(view.x) for r in rows}) == 1 else None
    if experiment == "perplexity" and (options.x or inner or view.x) == "length":
        documents = [d | {"rows": whole_lengths(d["rows"])} for d in documents]
        rows = [r for d in documents for r in d["rows"]]
        numbers = columns_of(rows, is_number)
    words = columns_of(rows, lambda value: isinstance(value, str))
    x = first_known(options.x, inner, view.x, next(iter(rows[0]), None), *numbers, among=numbers + words)
    rest = [n for n in numbers if n != x]
    y = first_known(options.y, view.y, *rest, among=columns_of(rows, is_drawable))
    if x is None or y is None or (x in words and several):
        raise BadInput("the rows hold no two numbers to draw against each other"
                       + (f", only: {', '.join(numbers)}" if numbers else ""))
    return bars(documents[0], x, y) if x in words else row_curves(documents, x, y, options)


def whole_lengths(rows):
    """perplexity's buckets of positions put together: a row for each length and control, by the tokens scored."""
    whole = {}
    for row in rows:
        if is_number(row.get("mean_nll")) and is_number(row.get("tokens")):
            whole.setdefault((row.get("length"), row.get("control")), []).append(row)
    merged = []
    for (length, control), buckets in whole.items():
        tokens = sum(b["tokens"] for b in buckets)
        nll = math.fsum(b["mean_nll"] * b["tokens"] for b in buckets) / tokens
        merged.append({"length": length, "control": control, "mean_nll": nll, "perplexity": math.exp(nll),
                       "tokens": tokens})
    return merged


def first_known(asked, *others, among):
    """The name that was asked for, which must be known, or the first known of the others."""
    if asked and asked not in among:
        raise BadInput(f"no row has a field called '{asked}' to draw; there are: {', '.join(among) or 'none'}")
    return asked or next((name for name in others if name in among), None)


def parse_arguments(argv):
    class OneLine(argparse.ArgumentParser):
        def error(self, message):
            raise BadInput(message)

    parser = OneLine(prog="plot.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", metavar="FILE", help="documents or streams; - or none: standard input")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="picture to write: .png, .svg or .pdf")
    parser.add_argument("--y", metavar="FIELD", help="number to draw: of the summary for a sweep, else of the rows")
    parser.add_argument("--x", metavar="FIELD", help="swept parameter or row field that goes across")
    parser.add_argument("--title", metavar="TEXT", help="title instead of the one made from the parameters")
    for axis in "xy":
        parser.add_argument(f"--log-{axis}", action=argparse.BooleanOptionalAction, default=None,
                            help=f"logarithmic {axis} axis (default: where it serves)")
    options = parser.parse_args(argv)
    if not options.output.lower().endswith(KNOWN_ENDINGS):
        raise BadInput(f"--output '{options.output}' must end in {', '.join(KNOWN_ENDINGS)}")
    return options


def write(fig, path):
    plt.rcParams["svg.hashsalt"] = "poslab"  # the same picture gives the same bytes
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.lower()[-3:])
    try:
        fig.savefig(path, dpi=150, metadata=undated)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


def main(argv):
    """The exit status."""
    try:
        options = parse_arguments(argv)
        fig = draw(read_documents(options.documents), options)
        if options.title:
            (fig.suptitle if len(fig.axes) > 2 else fig.axes[0].set_title)(options.title)
        write(fig, options.output)
    except BadInput as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    try:
        try:
            status = main(sys.argv[1:])
        except SystemExit as stop:  # --help
            status = stop.code
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
