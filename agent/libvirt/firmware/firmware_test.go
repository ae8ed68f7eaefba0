package firmware

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

// QEMU's user may write to the directory of the UEFI variables, and replace a path there at any time.
func TestFileHasItsOwnerAndModeBeforeItsName(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "vars.fd")
	requireNoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o755))
	if err := replaceFile(path, []byte("variables"), 4711); err == nil {
		t.Fatal("a directory with entries was replaced")
	}
	info, err := os.Lstat(path + fleet.PartialSuffix)
	requireNoError(t, err)
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 4711 || info.Mode() != 0o600 {
		t.Errorf("the new file has the owner %d and the mode %v", owner, info.Mode())
	}
}
