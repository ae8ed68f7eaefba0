package libvirt

import (
	"errors"
	"os"
	"testing"

	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// If somebody else creates the final file just as a volume is completed, either the file or the volume gets the name.
func TestCompletedVolumeNeverReplacesExistingFile(t *testing.T) {
	t.Parallel()
	p := storage.LocalVolume{Pool: fleet.Pool{Spec: fleet.PoolSpec{Path: t.TempDir()}}, Name: "disk.qcow2"}
	for range 3000 {
		if err := os.WriteFile(p.WithUnfinishedName().Path(), []byte("ours"), 0o600); err != nil {
			t.Fatal(err)
		}
		begin, made := make(chan struct{}), make(chan error, 1)
		go func() {
			<-begin
			f, err := os.OpenFile(p.Path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = f.Close()
			}
			made <- err
		}()
		close(begin)
		refused := renameUnfinishedFile(p)
		theirs := <-made == nil
		if theirs != (refused != nil) {
			t.Fatalf("created by the other side: %v, putInPlace: %v", theirs, refused)
		}
		if err := errors.Join(os.Remove(p.Path()), os.RemoveAll(p.WithUnfinishedName().Path())); err != nil {
			t.Fatal(err)
		}
	}
}
