#!/usr/bin/env bash
# How dynamic NTK moves RoPE's base as the context grows from 1k to 1M tokens, asked for twice: by the shell loop that
# people write, one document per length, joined with jq; and by one --sweep. Both give the same documents and picture.
#
#   scripts/sweep_context.sh [FOLDER]      FOLDER (default: context-sweep) gets documents and pictures
#   POSLAB=/usr/bin/poslab scripts/sweep_context.sh
set -euo pipefail
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-context-sweep}
poslab=${POSLAB:-$root/build/poslab}

"$root/scripts/install_deps.sh" plot
[[ -x $poslab ]] || "$root/scripts/build.sh"
mkdir -p -- "$folder"
question=(extend --rope-type dynamic --factor 1 --original-max-position-embeddings 4096)

run() {
  { printf '+' && printf ' %q' "$@" && echo; } >&2
  "$@"
}

for ((length = 1024; length <= 1048576; length *= 2)); do
  run "$poslab" "${question[@]}" --seq-len "$length" --output "$folder/$length.json"
done
for ((length = 1024; length <= 1048576; length *= 2)); do
  jq -c . "$folder/$length.json"
done > "$folder/loop.ndjson"
run "$root/scripts/plot.py" "$folder/loop.ndjson" -o "$folder/loop.png" --y effective_theta --log-y

run "$poslab" "${question[@]}" --sweep 'seq_len=1024:1048576:*2' --output "$folder/sweep.ndjson"
run "$root/scripts/plot.py" "$folder/sweep.ndjson" -o "$folder/sweep.png" --y effective_theta --log-y

jq -r '"\(.params.seq_len) tokens: base \(.summary.effective_theta // "unchanged")"' "$folder/sweep.ndjson"
if cmp -s <(jq -cS 'del(.context)' "$folder/loop.ndjson") <(jq -cS 'del(.context)' "$folder/sweep.ndjson"); then
  echo "The loop and the sweep gave the same documents: $folder/{loop,sweep}.{ndjson,png}"
else
  echo "sweep_context.sh: the loop and the sweep differ: $folder/loop.ndjson, $folder/sweep.ndjson" >&2
  exit 1
fi
