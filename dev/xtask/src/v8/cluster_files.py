"""Joins C++ sources into few translation units, which V8's cluster build asks a script of this name for.

V8's own script is left out of the crate `v8`. GN calls this one twice: once for the names of the joint files, and once
to write them. Three quarters of the time that V8 takes to compile go into reading the same headers again, so that a joint
file takes sources of many folders.
"""

import argparse
import pathlib
import re

# They define names that their neighbours mean something else by, or specialize what those have used.
ALONE = (
    "-tsa.cc",
    "/ast/prettyprinter.cc",
    "/builtins/setup-builtins-internal.cc",
    "/codegen/code-stub-assembler.cc",
    "/execution/isolate.cc",
    "/extensions/gc-extension.cc",
)
# The same, for all in a folder, which is joined for itself.
APART = ("/compiler/backend", "/compiler/backend/x64", "/regexp", "/regexp/experimental", "/regexp/x64")

# How many times the sources that V8 wants to join where they are heavy: it thinks of machines with many cores.
HEAVY_TIMES = 2


def arguments():
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--compute-filenames", action="store_true")
    mode.add_argument("--generate", action="store_true")
    parser.add_argument("--output-dir", type=pathlib.Path)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--cluster-size", type=int, required=True)
    parser.add_argument("--small-cluster-size", type=int, required=True)
    parser.add_argument("--small-cluster-dirs", action="append", default=[])
    parser.add_argument("--strip-prefix", default="")
    parser.add_argument("--include-prefix", default="")
    parser.add_argument("sources", nargs="*")
    return parser.parse_args()


def clusters(options):
    """Yields (file name, sources) of each joint file."""
    groups = {}
    for source in options.sources:
        folder = source.rpartition("/")[0]
        size = options.cluster_size
        group = ""
        if source.endswith(ALONE):
            group = source
        elif any(f"/{heavy}/" in f"/{folder}/" for heavy in options.small_cluster_dirs):
            group, size = folder, options.small_cluster_size * HEAVY_TIMES
        elif folder.endswith(APART):
            group = folder
        groups.setdefault((group, size), []).append(source)
    for (group, size), sources in groups.items():
        slug = re.sub(r"\W+", "-", group).strip("-") or "joint"
        # Parts of about the same size, as no part is to be compiled long after all others.
        parts = -(-len(sources) // size)
        for part in range(parts):
            start, end = (len(sources) * edge // parts for edge in (part, part + 1))
            yield f"{options.prefix}-{slug}-{part}.cc", sources[start:end]


def main():
    options = arguments()
    for name, sources in clusters(options):
        if options.compute_filenames:
            print(name)
            continue
        text = "".join(
            f'#include "{options.include_prefix}{source.removeprefix(options.strip_prefix)}"\n' for source in sources
        )
        path = options.output_dir / name
        # An unchanged file keeps its time, so that an interrupted build goes on.
        if not path.is_file() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


main()
