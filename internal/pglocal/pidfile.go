package pglocal

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidFile is the content of a postmaster's postmaster.pid.
type pidFile struct {
	pid       int
	socketDir string
	status    string // starting, stopping, ready; empty while being written
}

// readPidFile reads postmaster.pid in the data directory; ok is false if it is missing or unreadable.
func readPidFile(data string) (pidFile, bool) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	// The lines are PID, data directory, start time, port, socket directory, listen address, shared memory key, status.
	lines := strings.Split(string(text), "\n")
	line := func(i int) string {
		if i < len(lines) {
			return strings.TrimSpace(lines[i])
		}
		return ""
	}
	pid, err := strconv.Atoi(line(0))
	if err != nil || pid <= 1 {
		return pidFile{}, false
	}
	return pidFile{pid: pid, socketDir: line(4), status: line(7)}, true
}
