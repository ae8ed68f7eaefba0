//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// An upload without enough space is refused immediately. If the space runs out during the upload, the error has the
// kernel's reason and says what to do. Neither upload leaves a file.
func TestUploadRefusedWithoutFreeSpace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small := f
	small.pool.ID = fleet.NewID[fleet.PoolID]()
	small.pool.Name, small.pool.Spec.Path = "small-"+string(small.pool.ID), filepath.Join(t.TempDir(), "small")
	f.requireNoError(os.Mkdir(small.pool.Spec.Path, 0o755))
	run(t, "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small.pool.Spec.Path)
	t.Cleanup(func() { f.requireNoError(syscall.Unmount(small.pool.Spec.Path, syscall.MNT_DETACH)) })
	f.requireNoError(f.ApplyPool(t.Context(), small.pool))
	t.Cleanup(func() { f.requireNoError(f.ReleasePool(context.WithoutCancel(t.Context()), small.pool)) })
	upload := func(size int64) (conns chan io.ReadWriteCloser, ended chan error) {
		conns, ended = make(chan io.ReadWriteCloser), make(chan error, 1)
		go func() {
			ended <- small.UploadVolume(t.Context(), hypervisor.VolumeWork{
				Pool: small.pool, Name: "image.raw", Params: fleet.VolumeParams{Upload: "u", SizeBytes: size}, UploadConns: conns,
				RecordFile: func(string) error { return nil }, Progress: func(int, string) {},
			})
		}()
		return conns, ended
	}
	_, ended := upload(8 << 20)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "The upload has a size of 8 MiB, but the pool has room for 7.6 MiB") {
		t.Errorf("an upload larger than the free space: %v", err)
	}

	conns, ended := upload(6 << 20)
	conn, there := net.Pipe()
	conns <- there
	answers := wire.NewUploadAnswerReader(conn)
	if a, err := answers(); err != nil || a.Offset != 0 || a.Error != "" {
		t.Fatalf("the host's first answer: %+v, %v", a, err)
	}
	small.requireNoError(os.WriteFile(filepath.Join(small.pool.Spec.Path, "another's"), make([]byte, 4<<20), 0o600))
	last := make(chan wire.UploadAnswer, 1)
	go func() {
		a, _ := answers()
		last <- a
	}()
	piece := make([]byte, wire.UploadHeader+wire.MaxUploadPiece)
	wire.PutUploadHeader(piece, wire.MaxUploadPiece)
	for range 6 << 20 / wire.MaxUploadPiece {
		if _, err := conn.Write(piece); err != nil {
			break // the host closed the connection
		}
	}
	full := "The pool " + small.pool.Name + " has no space left on this host"
	if err := <-ended; fleet.CodeOf(err) != fleet.Conflict || !strings.HasPrefix(err.Error(), full) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a pool that fills up: %v", err)
	}
	if a := <-last; !a.Final || !strings.HasPrefix(a.Error, full) {
		t.Errorf("the sender's last answer: %+v", a)
	}
	small.requireNoError(os.Remove(filepath.Join(small.pool.Spec.Path, "another's")))
	if left := small.poolFiles(); len(left) > 0 {
		t.Errorf("the failed upload left %s", left)
	}
}
