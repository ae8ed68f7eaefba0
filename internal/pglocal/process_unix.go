//go:build unix && !linux

package pglocal

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const inheritedPaths = false

// setDeathSignal does nothing, because only Linux has this signal.
func setDeathSignal(*syscall.SysProcAttr) {}

func isRunning(pid int) bool {
	err := syscall.Kill(pid, 0)
	return (err == nil || errors.Is(err, syscall.EPERM)) && !strings.HasPrefix(ps(pid, "state="), "Z")
}

// isPostmaster compares only the process name. Start later queries the server for its data directory.
func isPostmaster(pid int, _ string, _ int) bool {
	name := filepath.Base(ps(pid, "comm="))
	return isRunning(pid) && (name == "postgres" || name == "postmaster")
}

// ps returns one column of the ps output for a process; empty if the process has ended.
func ps(pid int, column string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "ps", "-p", strconv.Itoa(pid), "-o", column).Output()
	return strings.TrimSpace(string(out))
}
