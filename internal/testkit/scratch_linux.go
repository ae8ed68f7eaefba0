package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	inMemory     = "/dev/shm"
	memoryWanted = 8 << 30     // bytes that are to be free in the machine's memory
	roomWanted   = 4 << 30     // and in the file system in it
	beginning    = time.Minute // within which whoever made a directory has locked it
)

// scratch makes a directory for the server, which lock holds until it is closed. It is in memory where there is plenty: each database is three hundred files, and
// ext4 looks at all that were deleted within the last seconds before it makes one, which took more time than the tests.
func scratch() (dir string, lock *os.File, err error) {
	parent := os.TempDir()
	if plenty() {
		parent = inMemory
		sweep()
	}
	if dir, err = os.MkdirTemp(parent, scratchName); err != nil {
		return "", nil, err
	}
	if lock, err = os.Open(dir); err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	return dir, lock, err
}

func plenty() bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(inMemory, &s); err != nil || s.Bavail*uint64(s.Bsize) < roomWanted { //nolint:gosec // the size of a block
		return false
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kib, err := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return err == nil && kib<<10 >= memoryWanted
}

// sweep removes what test programs that were killed have left in memory.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(inMemory, scratchName+"*")) // fails only for a bad pattern
	for _, dir := range left {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < beginning {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = os.RemoveAll(dir) // what stays is tried again by the next
		}
		f.Close()
	}
}
