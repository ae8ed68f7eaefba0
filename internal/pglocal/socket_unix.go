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

// socketPathLimit keeps the whole path of the socket below what every Unix takes (104 bytes on macOS, 108 on Linux).
const socketPathLimit = 100

// makeSocketDir returns a directory that only the owner and root may enter: Dir/run, or a short one named after Dir where that
// path is too long or the owner cannot reach it. A later run takes that of the first, whose address is in use.
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

// runtimeDirs are the places for short paths, best first. /run is out of reach of other users and of the sweepers of /tmp.
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

// privateDir makes the directory, or takes one that is there only if it was the owner's or ours alone: anyone may put
// something of this name into /tmp.
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
		return fmt.Errorf("%s belongs to somebody else; remove it", path)
	}
	if err := os.Chown(path, c.owner.uid, c.owner.gid); err != nil {
		return err
	}
	return os.Chmod(path, 0o700)
}
