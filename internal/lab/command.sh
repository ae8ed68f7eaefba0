# Runs a command inside a lab host as if it were this process: bash -c SCRIPT lab-host PID COMMAND [ARGUMENT…].
#
# Entering a PID namespace needs a fork, and nsenter forwards no signals. This script forwards TERM, INT, HUP, QUIT, USR1
# and USR2 to the command and exits with its status. SIGKILL to this shell also kills the command (pdeathsig, twice).
pid=$1
shift
passed=
pass() {
	passed=yes
	kill -s "$1" $(cat "/proc/$entered/task/$entered/children") 2>/dev/null || kill -s "$1" "$entered"
}
for s in TERM INT HUP QUIT USR1 USR2; do trap "pass $s" "$s"; done

exec 3<&0
setpriv --pdeathsig KILL nsenter --target "$pid" --mount --uts --pid --net --cgroup -- \
	env --default-signal --chdir="$PWD" setpriv --pdeathsig KILL "$@" <&3 3<&- &
entered=$!
exec 3<&-
while :; do
	passed=
	wait "$entered"
	status=$?
	if [ -z "$passed" ]; then exit "$status"; fi
done
