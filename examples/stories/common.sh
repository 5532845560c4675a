# Shared functions of the stories: the cluster (embedded unless --kubeconfig is given), output, and cleanup.
# Sourced by the stories, with the story's name in $story.
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
# The Python in which Mooring is installed.
python="$(head -1 "$(command -v mooring)" | sed -n 's/^#!\(.*python[0-9.]*\)$/\1/p')"
python="${python:-python3}"
# KUBECTL= disables kubectl.
kubectl="${KUBECTL-kubectl}"
work="$(mktemp -d)"
scheduler="" made=""

say() { printf '\n-- %s\n' "$*"; }

# Print and run a command.
run() { printf '   $ %s\n' "$*"; "$@"; }

apply() {
  if [ -n "$kubectl" ] && command -v "$kubectl" >/dev/null; then
    run "$kubectl" --kubeconfig "$kubeconfig" apply -f "$1"
  else
    run "$python" scripts/kube.py apply --kubeconfig "$kubeconfig" -f "$1"
  fi
}

delete() { "$python" scripts/kube.py delete --kubeconfig "$kubeconfig" -f "$1" >/dev/null 2>&1 || true; }

# Create nodes for the story. Nothing runs on them, but pods can be bound to them.
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

# Start a scheduler with the given command, and write its log to a file.
start_scheduler() {
  printf '   $ %s &\n' "$*"
  "$@" >"$work/scheduler.log" 2>&1 &
  scheduler=$!
}

stop_scheduler() {
  [ -z "$scheduler" ] || { kill "$scheduler" 2>/dev/null || true; wait "$scheduler" 2>/dev/null || true; }
  scheduler=""
}

# Check that a pod is bound to one of the given nodes.
expect() {
  local pod="$1" node
  shift
  if ! node="$("$python" scripts/kube.py bound --kubeconfig "$kubeconfig" --timeout 60 "$pod")"; then
    echo "The scheduler's log:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  if [[ " $* " != *" $node "* ]]; then
    echo "   pod $pod is on $node, not on $*: the story failed" >&2
    return 1
  fi
  echo "   pod $pod is on $node, as the story says."
}

# Check that a pod is pending, and that its condition contains a reason.
expect_waiting() {
  local pod="$1" wanted="$2" why
  if ! why="$("$python" scripts/kube.py waiting --kubeconfig "$kubeconfig" --timeout 60 "$pod")"; then
    echo "The scheduler's log:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  if [[ "$why" != *"$wanted"* ]]; then
    echo "   pod $pod is pending because of \"$why\", not \"$wanted\": the story failed" >&2
    return 1
  fi
  echo "   pod $pod is pending, as the story says: $why"
}

# Check that the scheduler's log has a line that matches a regular expression, and print it.
expect_log() {
  local line
  for _ in $(seq 100); do
    if line="$(grep -m 1 -E -- "$1" "$work/scheduler.log")"; then
      echo "   | $line"
      return 0
    fi
    sleep 0.1
  done
  echo "   the log has no line that matches $1: the story failed" >&2
  return 1
}

# Wait until the API server serves a group and version.
await_api() {
  for _ in $(seq 100); do
    "$python" scripts/kube.py read --kubeconfig "$kubeconfig" "/apis/$1" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  echo "   the API server does not serve $1" >&2
  return 1
}

# Create a service account with exactly the permissions that `mooring rbac` prints for a scheduler with these flags, and
# a kubeconfig with its token.
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
  say "Start an embedded cluster, because there is no --kubeconfig."
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
