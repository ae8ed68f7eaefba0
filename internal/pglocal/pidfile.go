package pglocal

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidFile is what a running postmaster writes into its data directory.
type pidFile struct {
	pid       int
	socketDir string
	status    string // starting, stopping, ready; empty while it is being written
}

// readPidFile returns false where no server has left one, or none that can be read.
func readPidFile(data string) (pidFile, bool) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	// The lines: pid, data directory, start time, port, socket directory, listen address, shared memory key, status.
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
