package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quantix/internal/release"
)

// prepareUpgrades creates the directory of releases and the key that signs them, and gives each host a program of its
// own, so that an upgrade does not replace the program of the portal.
func prepareUpgrades(dir string, hosts []*labHost) error {
	if err := os.MkdirAll(filepath.Join(dir, "releases"), 0o700); err != nil {
		return fmt.Errorf("create the directory of releases: %w", err)
	}
	key, err := labReleaseKey(filepath.Join(dir, "release.key"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, h := range hosts {
		h.program, h.upgradeKey = filepath.Join(h.dir, "bin", "quantix"), key.Public().String()
		if err := os.MkdirAll(filepath.Dir(h.program), 0o755); err != nil {
			return err
		}
		if err := os.Remove(h.program); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(copyFile(h.program, self), os.Chmod(h.program, 0o755)); err != nil { //nolint:gosec // a program
			return fmt.Errorf("copy the program for %s: %w", h.name, err)
		}
	}
	return nil
}

// labReleaseKey returns the key in the file, and creates it at the first start.
func labReleaseKey(file string) (release.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key, text, err := release.NewKey()
		if err != nil {
			return nil, err
		}
		return key, os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return release.ParsePrivateKey(text)
}
