#!/usr/bin/env bash
# Installs the Debian and Ubuntu packages that a task needs and the machine lacks.
#
#   scripts/install_deps.sh [build] [test] [plot] [benchmark] [fuzz]      default: build
set -euo pipefail

declare -A packages=(
  [build]="g++ cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libxtensor-dev libxsimd-dev
           libopenblas-dev libpcg-cpp-dev libutf8proc-dev libsentencepiece-dev zlib1g-dev
           doctest-dev"
  [test]="python3 python3-numpy python3-matplotlib jq"
  [plot]="python3 python3-matplotlib jq"
  [benchmark]="libbenchmark-dev python3 python3-numpy"
  [fuzz]="clang libclang-rt-dev"  # the runtime of its sanitizers is only recommended by clang
)

fail() {
  echo "install_deps.sh: $*" >&2
  exit 2
}

wanted=()
for task in "${@:-build}"; do
  [[ -v "packages[$task]" ]] || fail "unknown task '$task'; choose from: ${!packages[*]}"
  # shellcheck disable=SC2206 # a list of words
  wanted+=(${packages[$task]})
done

command -v dpkg-query >/dev/null ||
  fail "no dpkg here. Install what these hold, then 'cmake --preset default && cmake --build build': ${wanted[*]}"

installed() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p'
}
mapfile -t missing < <(comm -13 <(installed | sort -u) <(printf '%s\n' "${wanted[@]}" | sort -u))
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $(id -u) -eq 0 ]]; then
  as_root=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null; then
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  fail "these packages are missing and there is no sudo: ask an administrator to run 'apt-get install ${missing[*]}'"
fi

echo "install_deps.sh: ${as_root[*]} apt-get install ${missing[*]}" >&2
apt=("${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300)
{
  # One unreachable foreign repository must not stop the packages that the others have.
  "${apt[@]}" update || echo "install_deps.sh: apt-get update failed; going on with the lists at hand" >&2
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]} (on Ubuntu they are in the component 'universe')"
} </dev/null >&2
