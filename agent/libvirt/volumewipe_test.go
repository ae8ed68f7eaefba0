//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// If somebody replaces the file during a wipe, the new file is not changed.
func TestWipeDoesNotChangeReplacementFile(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 48)
	for range 10 { // a wipe may end before the rename
		run(t, "cp", m.volumePath("image.qcow2"), m.volumePath("wiped.qcow2"))
		other := filepath.Join(m.pool.Spec.Path, "theirs.qcow2")
		run(t, "qemu-img", "create", "-f", "qcow2", other, "3M")
		renamed := make(chan bool)
		over := make(chan struct{})
		go func() {
			for {
				if isZero(m.volumePath("wiped.qcow2")) {
					renamed <- os.Rename(other, m.volumePath("wiped.qcow2")) == nil
					return
				}
				select {
				case <-over:
					renamed <- false
					return
				default:
				}
			}
		}()
		err := m.WipeVolume(t.Context(), m.volumeJob("wiped.qcow2", fleet.VolumeParams{}))
		close(over)
		if !<-renamed {
			continue
		}
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Another file replaced the volume") {
			t.Errorf("wipe: %v", err)
		}
		if info := run(t, "qemu-img", "info", m.volumePath("wiped.qcow2")); !strings.Contains(info, "3 MiB") {
			t.Errorf("the other file is\n%s", info)
		}
		return
	}
	t.Fatal("no wipe lasted long enough for the rename")
}

// isZero reports whether the first byte of the file is zero.
func isZero(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := []byte{1}
	_, err = f.Read(head)
	return err == nil && head[0] == 0
}
