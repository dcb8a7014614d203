#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   scripts/test.sh [PRESET [CTEST_OPTION ...]]      e.g. scripts/test.sh asan -R process
#   scripts/test.sh fuzz                             feeds broken files to the readers for 40 seconds
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

preset=${1:-default}
build=build
[[ $preset == default ]] || build=build-$preset

if [[ $preset == fuzz ]]; then
  scripts/install_deps.sh fuzz
  exec scripts/build.sh fuzz fuzz
fi
scripts/install_deps.sh build test
scripts/build.sh "$preset" all
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" "${@:2}"
