package transfer_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quantix/agent/transfer"
)

// newRandomFile returns a file of size random bytes.
func newRandomFile(t *testing.T, size int) *os.File {
	t.Helper()
	text := make([]byte, size)
	_, _ = rand.Read(text) // it never fails
	f := newEmptyFile(t, "src")
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	return f
}

func newEmptyFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCopyIsRateLimited(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	src, dst := newRandomFile(t, size), newEmptyFile(t, "dst")
	began := time.Now()
	if _, err := transfer.CopyFile(t.Context(), dst, src, size, &transfer.RateLimit{Bytes: 4 << 20}, nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("3 MiB at 4 MiB/s took %s", took)
	}
}

func TestCopyIsVerifiedByReadingStorage(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 5
	src, dst := newRandomFile(t, size), newEmptyFile(t, "dst")
	sum, err := transfer.CopyFile(t.Context(), dst, src, size, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	was, _ := os.ReadFile(src.Name())
	if is, _ := os.ReadFile(dst.Name()); !bytes.Equal(was, is) {
		t.Error("the copy has other bytes")
	}
	if err := transfer.VerifyFile(t.Context(), dst, size, sum, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := dst.WriteAt([]byte("rot"), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := transfer.VerifyFile(t.Context(), dst, size, sum, nil); !errors.Is(err, transfer.ErrDiffers) {
		t.Errorf("another byte: %v", err)
	}
	if err := transfer.VerifyFile(t.Context(), dst, size+1, sum, nil); err == nil {
		t.Error("another length")
	}
}
