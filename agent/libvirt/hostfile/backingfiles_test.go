package hostfile

import (
	"maps"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestBackingFilesAreThoseOfHeaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, golden, disk := filepath.Join(dir, "base.raw"), filepath.Join(dir, "golden.qcow2"), filepath.Join(dir, "disk.qcow2")
	for _, args := range [][]string{
		{"-f", "raw", base, "1M"}, {"-f", "qcow2", "-b", base, "-F", "raw", golden}, {"-f", "qcow2", "-b", "golden.qcow2", "-F", "qcow2", disk},
	} {
		if out, err := exec.Command("qemu-img", append([]string{"create"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img: %v: %s", err, out)
		}
	}
	if is, want := BackingFiles(disk, false), map[string]bool{golden: false, base: true}; !maps.Equal(is, want) {
		t.Errorf("the disk's backing files are %v, want %v", is, want)
	}
	if is := BackingFiles(disk, true); len(is) > 0 {
		t.Errorf("a raw disk has the backing files %v", is)
	}
}
