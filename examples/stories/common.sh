# What the stories share: a cluster (an embedded one unless --kubeconfig names another), telling what is done, and
# cleaning up. Sourced by the stories, with the story's name in $story.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

kubeconfig=""
while [ $# -gt 0 ]; do
  case "$1" in
    --kubeconfig) kubeconfig="${2:?--kubeconfig needs a file}"; shift 2 ;;
    --kubeconfig=*) kubeconfig="${1#*=}"; shift ;;
    *) echo "usage: $0 [--kubeconfig FILE]    (an embedded cluster is started unless a file is given)" >&2; exit 2 ;;
  esac
done

PATH="$PWD/.venv/bin:$PATH"
for program in mooring python3; do
  command -v "$program" >/dev/null || { echo "$program was not found; run \`make demo\` once, which installs it" >&2; exit 1; }
done
# The Python that has Mooring.
python="$(head -1 "$(command -v mooring)" | sed -n 's/^#!\(.*python[0-9.]*\)$/\1/p')"
python="${python:-python3}"
# KUBECTL= does without.
kubectl="${KUBECTL-kubectl}"
work="$(mktemp -d)"
scheduler="" made=""

say() { printf '\n-- %s\n' "$*"; }

# Print a command, and run it.
run() { printf '   $ %s\n' "$*"; "$@"; }

apply() {
  if [ -n "$kubectl" ] && command -v "$kubectl" >/dev/null; then
    run "$kubectl" --kubeconfig "$kubeconfig" apply -f "$1"
  else
    run "$python" scripts/kube.py apply --kubeconfig "$kubeconfig" -f "$1"
  fi
}

delete() { "$python" scripts/kube.py delete --kubeconfig "$kubeconfig" -f "$1" >/dev/null 2>&1 || true; }

# Make a few nodes that belong to the story alone: nothing runs on them, but pods can be bound to them.
make_nodes() {
  local name
  for name in "$@"; do
    cat <<NODE
apiVersion: v1
kind: Node
metadata: {name: $name, labels: {kubernetes.io/hostname: $name, mooring.dev/story: $story}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", reason: Story, message: made for the story}]
---
NODE
  done >"$work/nodes.yaml"
  "$python" scripts/kube.py apply --kubeconfig "$kubeconfig" -f "$work/nodes.yaml"
  made="$made $work/nodes.yaml"
}

# Start a scheduler (the command is given) and keep its log.
start_scheduler() {
  printf '   $ %s &\n' "$*"
  "$@" >"$work/scheduler.log" 2>&1 &
  scheduler=$!
}

stop_scheduler() {
  [ -z "$scheduler" ] || { kill "$scheduler" 2>/dev/null || true; wait "$scheduler" 2>/dev/null || true; }
  scheduler=""
}

# The pod must be bound to the node that the story says, or to one of them.
expect() {
  local pod="$1" node
  shift
  if ! node="$("$python" scripts/kube.py bound --kubeconfig "$kubeconfig" --timeout 60 "$pod")"; then
    echo "The scheduler said:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  if [[ " $* " != *" $node "* ]]; then
    echo "   pod $pod is on $node, and not on $*: the story does not hold" >&2
    return 1
  fi
  echo "   pod $pod is on $node, as the story says."
}

# The pod must wait for a node, and its condition must say why.
expect_waiting() {
  local pod="$1" wanted="$2" why
  if ! why="$("$python" scripts/kube.py waiting --kubeconfig "$kubeconfig" --timeout 60 "$pod")"; then
    echo "The scheduler said:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  if [[ "$why" != *"$wanted"* ]]; then
    echo "   pod $pod waits because of \"$why\", and not of \"$wanted\": the story does not hold" >&2
    return 1
  fi
  echo "   pod $pod waits, as the story says: $why"
}

# The scheduler's log must have a line like this (a regular expression); it is shown.
expect_told() {
  local line
  for _ in $(seq 100); do
    if line="$(grep -m 1 -E -- "$1" "$work/scheduler.log")"; then
      echo "   | $line"
      return 0
    fi
    sleep 0.1
  done
  echo "   the log has no line like $1: the story does not hold" >&2
  return 1
}

# Wait until the API server serves a group and version that it was told of just now.
await_api() {
  for _ in $(seq 100); do
    "$python" scripts/kube.py read --kubeconfig "$kubeconfig" "/apis/$1" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  echo "   the API server does not serve $1" >&2
  return 1
}

# Give a service account of that name exactly the rights that `mooring rbac` prints for the scheduler that is run with
# these flags, and make a kubeconfig with its token.
allow_scheduler() {
  local name="$1" rbac
  shift
  rbac=(mooring rbac "$@" --name "$name" --service-account "$name" --no-serve)
  printf '   $ %s\n' "${rbac[*]}"
  { printf 'apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: kube-system}\n---\n' "$name"
    "${rbac[@]}"; } >"$work/rbac.yaml"
  made="$work/rbac.yaml $made"
  apply "$work/rbac.yaml"
  "$python" examples/stories/with_token.py "$kubeconfig" \
    "$("$python" scripts/kube.py token --kubeconfig "$kubeconfig" -n kube-system "$name")" >"$work/scheduler.kubeconfig"
}

end() {
  local status=$? file
  stop_scheduler
  [ "$(type -t at_end)" != function ] || at_end
  for file in $made; do delete "$file"; done
  [ -z "${cluster:-}" ] || { kill "$cluster" 2>/dev/null || true; wait "$cluster" 2>/dev/null || true; }
  rm -rf "$work"
  exit "$status"
}
trap end EXIT
trap 'exit 130' INT TERM

if [ -z "$kubeconfig" ]; then
  say "No --kubeconfig was given: an embedded cluster is started."
  kubeconfig="$work/kubeconfig"
  printf '   $ mooring cluster start --nodes 0 --kubeconfig-out %s &\n' "$kubeconfig"
  mooring cluster start --nodes 0 --kubeconfig-out "$kubeconfig" >"$work/cluster.log" 2>&1 &
  cluster=$!
  for _ in $(seq 300); do
    [ ! -e "$kubeconfig" ] || break
    kill -0 "$cluster" 2>/dev/null || { cat "$work/cluster.log" >&2; exit 1; }
    sleep 0.1
  done
fi
