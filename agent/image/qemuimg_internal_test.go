//go:build linux

package image

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The memory limit must allow one qemu-img thread per waiting request, as for slow storage.
func TestQemuImgLimitsApplyToAllThreads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "busy.raw")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 64<<20); err != nil {
		t.Fatal(err)
	}
	limits := []string{"--as=1073741824", "--nofile=64", "--core=0"}
	call, err := newQemuImgCall(t.Context(), limits, "bench", "-f", "raw", "-c", "20000", "-d", "64", "-s", "65536", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := call.run(t.Context()); err != nil {
		t.Fatalf("with 64 requests at once: %v", err)
	}
}

// An agent that is killed while qemu-img runs leaves no directory behind.
func TestQemuImgWorkingDirectoryIsDeleted(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	never := filepath.Join(temp, "never.raw") // qemu-img waits for a writer
	if err := syscall.Mkfifo(never, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	call, err := newQemuImgCall(ctx, nil, "info", "-f", "raw", never)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- call.run(ctx) }()
	deadline := time.After(30 * time.Second)
	for tick := time.Tick(5 * time.Millisecond); !hasDeletedDir(temp); {
		select {
		case <-tick:
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		case <-deadline:
			t.Fatal("its directory stays")
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted qemu-img run succeeded")
	}
}

// hasDeletedDir reports whether a process has a deleted working directory below the given one.
func hasDeletedDir(below string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	return slices.ContainsFunc(all, func(link string) bool {
		at, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(at, below) && strings.HasSuffix(at, " (deleted)")
	})
}
