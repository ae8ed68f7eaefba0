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

// socketPathLimit keeps the socket's path below the limit of every Unix (104 bytes on macOS, 108 on Linux).
const socketPathLimit = 100

// makeSocketDir returns a directory that only the owner and root may enter: Dir/run, or a short path derived from Dir
// if Dir/run is too long or not reachable for the owner. Restarts reuse the first directory, because clients have its
// address.
func (c *cluster) makeSocketDir(reachable bool) (string, error) {
	if c.socketDir != "" {
		return c.socketDir, c.privateDir(c.socketDir)
	}
	path := filepath.Join(c.dir, "run")
	if reachable && fits(path) {
		return path, c.privateDir(path)
	}
	sum := sha256.Sum256([]byte(c.dir))
	name := "quantix-pg-" + hex.EncodeToString(sum[:6])
	var failed []error
	for _, base := range runtimeDirs() {
		path := filepath.Join(base, name)
		if !fits(path) {
			continue
		}
		err := c.privateDir(path)
		if err == nil {
			return path, nil
		}
		failed = append(failed, err)
	}
	return "", fmt.Errorf("no place for the database's socket; choose a shorter data directory: %w", errors.Join(failed...))
}

func fits(dir string) bool { return len(filepath.Join(dir, ".s.PGSQL."+port)) <= socketPathLimit }

// runtimeDirs are directories for short paths, best first. Other users and /tmp cleaners cannot change /run.
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

// privateDir creates the directory. It accepts an existing one only if the owner or this user owns it, because anyone
// may create this name in /tmp.
func (c *cluster) privateDir(path string) error {
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
