"""Joins C++ sources into few translation units, which V8's cluster build asks a script of this name for.

V8's own script is left out of the crate `v8`. GN calls this one twice: once for the names of the joint files, and once
to write them. A joint file includes up to a cluster's size of sources of one folder, in the order in which they are named.
"""

import argparse
import pathlib
import re

# They define the same names as their neighbours, or need the compiler's memory for themselves.
ALONE = ("-tsa.cc", "setup-builtins-internal.cc")


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
    folders = {}
    for source in options.sources:
        folder = source.rpartition("/")[0]
        if source.endswith(ALONE):
            folder = source
        folders.setdefault(folder, []).append(source)
    for folder, sources in folders.items():
        small = any(f"/{small}/" in f"/{folder}/" for small in options.small_cluster_dirs)
        size = options.small_cluster_size if small else options.cluster_size
        slug = re.sub(r"\W+", "-", folder).strip("-")
        for start in range(0, len(sources), size):
            yield f"{options.prefix}-{slug}-{start // size}.cc", sources[start : start + size]


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
