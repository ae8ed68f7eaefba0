package pooldir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"quantix/internal/fleet"
)

// probePrefix is the name prefix of files that probes write; lists of volumes leave them out.
const probePrefix = ".quantix-probe-"

// IsQuantixFile reports whether a file in a pool's directory is Quantix's own and therefore not a volume.
func IsQuantixFile(name string) bool {
	return name == MarkerFile || strings.HasPrefix(name, probePrefix)
}

// ProbeDurations holds the durations of a small synced write to a pool's directory and of reading it back; zero: not
// tried.
type ProbeDurations struct{ Write, Read time.Duration }

// probeSize is the size of a probe in bytes.
const probeSize = 4096

// ProbeDir writes a small file into a pool's directory, reads it back and removes it. An error means that writes
// fail. A full file system and missing permissions are no errors: free space is reported elsewhere, and a server may
// allow only guests to write. ProbeDir may block as long as the storage does not answer.
func ProbeDir(dir string) (p ProbeDurations, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return p, err
	}
	defer func() { _ = root.Close() }()
	name := probePrefix + rand.Text()
	p, err = writeAndReadProbe(root, name)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, os.ErrPermission):
		return ProbeDurations{}, nil
	case errors.Is(err, syscall.EROFS):
		return ProbeDurations{}, fleet.Errorf(fleet.Conflict, "Nothing can be written to %s: it is mounted read-only.", dir)
	}
	return ProbeDurations{}, fleet.Errorf(fleet.Conflict, "A test file could not be written to %s and read back: %v", dir, err)
}

func writeAndReadProbe(root *os.Root, name string) (p ProbeDurations, err error) {
	out := make([]byte, probeSize)
	_, _ = rand.Read(out)
	began := time.Now()
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, f.Close(), root.Remove(name)) }()
	if _, err = f.Write(out); err != nil {
		return p, err
	}
	if err = f.Sync(); err != nil {
		return p, err
	}
	p.Write = time.Since(began)
	dropPageCache(f)
	began = time.Now()
	back := make([]byte, probeSize)
	if _, err = f.ReadAt(back, 0); err != nil && !errors.Is(err, io.EOF) {
		return p, err
	}
	p.Read = time.Since(began)
	if !bytes.Equal(out, back) {
		return p, errors.New("the data read differs from the data written")
	}
	return p, nil
}

// SteadyMicroseconds returns a duration in microseconds for reports. It keeps the previously reported value until that
// value is wrong by a factor of two, so that busy storage does not change each report.
func SteadyMicroseconds(previous int64, now time.Duration) int64 {
	us := now.Microseconds()
	if previous > 0 && us > previous/2 && us < previous*2 {
		return previous
	}
	return us
}
