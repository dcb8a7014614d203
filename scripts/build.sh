#!/usr/bin/env bash
# Installs what is missing and builds; without arguments build/poslab. Everything it says goes to stderr.
#
#   scripts/build.sh [PRESET [TARGET]]      presets: CMakePresets.json; targets: poslab (default), all, ...
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

preset=${1:-default}
target=${2:-poslab}
build=build
[[ $preset == default ]] || build=build-$preset

scripts/install_deps.sh build

# A tree that was moved or copied brings a cache that names its old place.
if [[ -f $build/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$build/CMakeCache.txt"; then
  rm -rf -- "$build"
fi
if [[ ! -f $build/build.ninja ]]; then
  cmake --preset "$preset" >&2
fi

# Silent when there is nothing to do.
cmake --build "$build" --target "$target" --parallel "$(nproc)" 2>&1 |
  sed -u -e '/^ninja: no work to do\.$/d' -e '/Re-checking globbed directories\.\.\.$/d' -e '/ Reading the revision$/d' >&2
