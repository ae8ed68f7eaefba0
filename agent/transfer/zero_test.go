package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"quantix/agent/transfer"
)

// newSparseFile returns a file of data, a hole and data again, of 8 MiB each.
func newSparseFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	data := bytes.Repeat([]byte("secret! "), 1<<20)
	for _, at := range []int64{0, 16 << 20} {
		if _, err := f.WriteAt(data, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestZeroFileOverwritesAllData(t *testing.T) {
	t.Parallel()
	f := newSparseFile(t)
	if err := transfer.ZeroFile(t.Context(), f, 24<<20, &transfer.Meter{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil || len(text) != 24<<20 || bytes.Contains(text, []byte("secret")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// A cancelled ZeroFile ends at the next block and leaves the rest unchanged.
func TestZeroFileEndsWhenCancelled(t *testing.T) {
	t.Parallel()
	f, back := newSparseFile(t), errors.New("taken back")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(back)
	if err := transfer.ZeroFile(ctx, f, 24<<20, nil); !errors.Is(err, back) {
		t.Errorf("it ended with %v", err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil || !bytes.HasSuffix(text, []byte("secret! ")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
