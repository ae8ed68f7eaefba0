//go:build unix

package pglocal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// socketPathLimit is below the maximum path length of a Unix socket on every Unix (104 bytes on macOS, 108 on Linux).
const socketPathLimit = 100

// makeSocketDir returns a directory that only the owner and root may enter. This is Dir/run, or a short path derived
// from Dir if Dir/run is too long or the owner cannot reach it. Restarts use the same directory again, because clients
// have its address.
func (c *cluster) makeSocketDir(reachable bool) (string, error) {
	if c.socketDir != "" {
		return c.socketDir, c.makePrivateDir(c.socketDir)
	}
	path := filepath.Join(c.dir, "run")
	if reachable && socketPathFits(path) {
		return path, c.makePrivateDir(path)
	}
	sum := sha256.Sum256([]byte(c.dir))
	name := "quantix-pg-" + hex.EncodeToString(sum[:6])
	var failed []error
	for _, base := range runtimeDirs() {
		path := filepath.Join(base, name)
		if !socketPathFits(path) {
			continue
		}
		err := c.makePrivateDir(path)
		if err == nil {
			return path, nil
		}
		failed = append(failed, err)
	}
	return "", fmt.Errorf("no usable directory for the database's socket; choose a shorter data directory: %w", errors.Join(failed...))
}

func socketPathFits(dir string) bool {
	return len(filepath.Join(dir, ".s.PGSQL."+port)) <= socketPathLimit
}

// runtimeDirs returns directories for short paths, best first. Neither other users nor /tmp cleaners can change /run.
func runtimeDirs() []string {
	if os.Getuid() == 0 {
		return []string{"/run", os.TempDir(), "/tmp"}
	}
	var dirs []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, dir)
	}
	return append(dirs, os.TempDir(), "/tmp")
}

// makePrivateDir creates the directory. An existing directory must belong to the owner or to this user, because anyone may
// create a directory with this name in /tmp.
func (c *cluster) makePrivateDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	if !info.IsDir() || (uid != c.owner.uid && uid != os.Getuid()) {
		return fmt.Errorf("%s belongs to another user; remove the directory", path)
	}
	if err := os.Chown(path, c.owner.uid, c.owner.gid); err != nil {
		return err
	}
	return os.Chmod(path, 0o700)
}
