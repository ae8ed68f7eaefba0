package pglocal

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// inheritedPaths reports whether an open directory is accessible as /proc/self/fd/N even if its parent directories are
// not.
const inheritedPaths = true

func setDeathSignal(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// isRunning reports whether the process runs. A zombie does not count: in a container, nothing may reap the child of a
// killed portal.
func isRunning(pid int) bool {
	_, state, ok := processStat(pid)
	return ok && state != 'Z' && state != 'X'
}

// isPostmaster reports whether the process is a PostgreSQL on this data directory, and not an unrelated process that
// got its PID.
func isPostmaster(pid int, data string, uid int) bool {
	name, state, ok := processStat(pid)
	if !ok || state == 'Z' || state == 'X' || (name != "postgres" && name != "postmaster") {
		return false
	}
	want, err := os.Stat(data)
	if err != nil {
		return false
	}
	if cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		return os.SameFile(cwd, want)
	}
	// In many containers even root cannot read cwd. Then a matching program name and user are sufficient.
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == uid
}

// processStat parses "pid (name) state …"; the name may contain any character.
func processStat(pid int) (name string, state byte, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	open, closing := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || closing < open || closing+2 >= len(text) {
		return "", 0, false
	}
	return string(text[open+1 : closing]), text[closing+2], true
}
