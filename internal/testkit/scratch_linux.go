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
	memoryDir = "/dev/shm"
	minMemory = 8 << 30     // minimum of available memory, in bytes
	minFree   = 4 << 30     // minimum of free space in /dev/shm, in bytes
	lockDelay = time.Minute // time limit for the creator of a directory to lock it
)

// createScratchDir creates the directory of the PostgreSQL server. It is locked until lock is closed. If there is enough memory,
// it is in /dev/shm: each database has 300 files, and before ext4 creates a file, it checks recently deleted inodes,
// which took more time than the tests.
func createScratchDir() (dir string, lock *os.File, err error) {
	parent := os.TempDir()
	if memoryAvailable() {
		parent = memoryDir
		removeStaleScratchDirs()
	}
	if dir, err = os.MkdirTemp(parent, scratchName); err != nil {
		return "", nil, err
	}
	if lock, err = os.Open(dir); err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	return dir, lock, err
}

func memoryAvailable() bool {
	var s syscall.Statfs_t
	// Bavail counts blocks of Bsize bytes.
	if err := syscall.Statfs(memoryDir, &s); err != nil || s.Bavail*uint64(s.Bsize) < minFree { //nolint:gosec
		return false
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kib, err := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return err == nil && kib<<10 >= minMemory
}

// removeStaleScratchDirs removes directories in memory that killed test programs have left.
func removeStaleScratchDirs() {
	left, _ := filepath.Glob(filepath.Join(memoryDir, scratchName+"*")) // Glob fails only for an invalid pattern
	for _, dir := range left {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < lockDelay {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = os.RemoveAll(dir) // the next sweep retries
		}
		f.Close()
	}
}
