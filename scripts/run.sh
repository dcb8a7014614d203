#!/usr/bin/env bash
# Installs what is missing, builds, and runs poslab; without arguments the tour of the lesson.
#
#   scripts/run.sh [SUBCOMMAND ...]
set -euo pipefail
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

"$root/scripts/build.sh"
[[ $# -gt 0 ]] || set -- tour
exec "$root/build/poslab" "$@"
