package libvirt

import (
	"errors"
	"os"
	"testing"

	"quantix/internal/fleet"
)

// If somebody else creates the final file just as a volume is completed, either the file or the volume gets the name.
func TestFinalFileNameNeverReplacesFile(t *testing.T) {
	t.Parallel()
	p := localVolume{pool: fleet.Pool{Spec: fleet.PoolSpec{Path: t.TempDir()}}, volume: "disk.qcow2"}
	for range 3000 {
		if err := os.WriteFile(p.unfinished().path(), []byte("ours"), 0o600); err != nil {
			t.Fatal(err)
		}
		begin, made := make(chan struct{}), make(chan error, 1)
		go func() {
			<-begin
			f, err := os.OpenFile(p.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = f.Close()
			}
			made <- err
		}()
		close(begin)
		refused := renameToFinal(p)
		theirs := <-made == nil
		if theirs != (refused != nil) {
			t.Fatalf("created by the other side: %v, putInPlace: %v", theirs, refused)
		}
		if err := errors.Join(os.Remove(p.path()), os.RemoveAll(p.unfinished().path())); err != nil {
			t.Fatal(err)
		}
	}
}
