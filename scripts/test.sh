#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   scripts/test.sh [PRESET [CTEST_OPTION ...]]      e.g. scripts/test.sh asan -R process
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

preset=${1:-default}
build=build
[[ $preset == default ]] || build=build-$preset

scripts/install_deps.sh build test
scripts/build.sh "$preset" all
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" "${@:2}"
