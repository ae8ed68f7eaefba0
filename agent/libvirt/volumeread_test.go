//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

// If a file changes while it is sent, its last bytes are not sent.
func TestFileChangedDuringReadIsNotSentCompletely(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addImage(t, f.pool, conformance.Image{Name: "data", Kind: conformance.Raw, SizeBytes: 4 << 20})
	for how, write := range map[string]func(*os.File) error{
		"over":   func(file *os.File) error { _, err := file.WriteAt([]byte("changed"), 0); return err },
		"behind": func(file *os.File) error { return file.Truncate(5 << 20) },
	} {
		f.requireNoError(os.Truncate(f.volumePath("data"), 4<<20))
		got := &changingWriter{write: func() {
			file, err := os.OpenFile(f.volumePath("data"), os.O_WRONLY, 0)
			f.requireNoError(err)
			f.requireNoError(errors.Join(write(file), file.Close()))
		}}
		var size int64
		err := f.ReadVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{}), func(n int64) (io.Writer, error) { size = n; return got, nil })
		if err == nil || size != 4<<20 || int64(got.Len()) >= size {
			t.Errorf("written %s: %d bytes announced, %d sent: %v", how, size, got.Len(), err)
		}
	}
	// The file's length reveals a change between the first check and the first read.
	f.requireNoError(os.Truncate(f.volumePath("data"), 4<<20))
	var got bytes.Buffer
	err := f.ReadVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{}), func(int64) (io.Writer, error) {
		return &got, os.Truncate(f.volumePath("data"), 5<<20)
	})
	if err == nil {
		t.Errorf("%d bytes of a grown file were sent without an error", got.Len())
	}
}

// changingWriter changes the file after the first bytes have been sent.
type changingWriter struct {
	bytes.Buffer
	write func()
}

func (w *changingWriter) Write(p []byte) (int, error) {
	if w.Len() == 0 {
		w.write()
	}
	return w.Buffer.Write(p)
}
