#!/usr/bin/python3
"""The include rule of ARCHITECTURE.md's map, checked on the text of every source file.

    scripts/check_layers.py [ROOT]

Debian puts every header in /usr/include, so no link target can enforce it. Exit status 1 lists what breaks the rule.
"""

import pathlib
import re
import sys

# Library -> the layers that may include its headers.
KEPT_TO = {
    "CLI/": {"cli"},
    "nlohmann/": {"formats", "model_configs", "tokenizers", "models", "report", "experiments", "cli"},
}
# CMake makes these headers; they hold data only.
GENERATED = re.compile(r"poslab_\w+\.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
ROW = re.compile(r"^\| `(?:apps|lib/poslab)/(\w+)(?:/|\.cpp)` \|.*\|([^|]*)\|$", re.MULTILINE)
PRINTS = re.compile(r"\bstd::(?:cout|cerr|clog|puts|putchar)\b|\b(?:fmt::print|f?printf|fputs|puts|perror)\s*\(")


def read_map(root):
    """Layer -> the layers whose headers it may include, itself apart: the last column of the map's table."""
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    may_include = {room: {name.strip() for name in last.split(",") if name.strip()} for room, last in ROW.findall(text)}
    unknown = set().union(*may_include.values()) - set(may_include)
    if not may_include or unknown:
        sys.exit(f"check_layers.py: the map of ARCHITECTURE.md has no row for {', '.join(sorted(unknown)) or 'any room'}")
    return may_include


def layer_of(path):
    """'apps/cli/x.h' -> cli, 'lib/poslab/core/x.h' -> core, 'apps/main.cpp' -> main."""
    if path == "apps/main.cpp":
        return "main"
    parts = path.split("/")
    return parts[1] if parts[0] == "apps" else parts[2] if len(parts) > 3 else None


def problems_of(root, path, concrete, may_include):
    text = (root / path).read_text(encoding="utf-8")
    layer = layer_of(path)
    if layer not in may_include:
        yield 1, f"'{layer}' is no layer"
        return
    for found in INCLUDE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        bracket, name = found.groups()
        if bracket == "<":
            for library, layers in KEPT_TO.items():
                if name.startswith(library) and layer not in layers:
                    kept = ", ".join(sorted(layers))
                    yield line, f"{layer} may not include <{name}>: {library[:-1]} is kept to {kept}"
            continue
        if GENERATED.fullmatch(name):
            continue
        home = next((f"{top}/{name}" for top in ("lib", "apps") if (root / top / name).is_file()), None)
        if home is None:
            yield line, f'"{name}" is not named from lib/ or apps/'
            continue
        target = layer_of(home)
        if target != layer and (target not in may_include[layer] or ".kernel." in path):
            yield line, f'{layer} may not include {target} ("{name}")'
        elif home.rsplit(".", 1)[0] in concrete and home.rsplit(".", 1)[0] != path.rsplit(".", 1)[0]:
            yield line, f'nobody may include a concrete experiment ("{name}")'
    if layer not in ("cli", "main"):
        for found in PRINTS.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, f"{layer} may not print ({found.group().strip('( ')})"


def main(root):
    paths = sorted(p.relative_to(root).as_posix() for top in ("lib/poslab", "apps") for p in (root / top).rglob("*")
                   if p.suffix in (".h", ".cpp", ".inc"))
    if not paths:
        sys.exit(f"check_layers.py: no source file under {root}")
    may_include = read_map(root)
    # An experiment is a source file that registers one; other files of its room are shared helpers.
    concrete = {p.rsplit(".", 1)[0] for p in paths if p.startswith("apps/experiments/") and p.endswith(".cpp")
                and re.search(r"^const Registrar ", (root / p).read_text(encoding="utf-8"), re.MULTILINE)}
    broken = [f"{path}:{line}: {what}" for path in paths 
              for line, what in problems_of(root, path, concrete, may_include)]
    print("\n".join(broken) if broken else f"{len(paths)} files keep the include rule")
    return 1 if broken else 0


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent.parent
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here))
