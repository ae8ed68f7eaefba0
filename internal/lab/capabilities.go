//go:build linux

package lab

import (
	"bytes"
	"os"
	"path/filepath"
)

// libvirt probes each emulator's capabilities before the first define, which takes seconds. It caches the results in
// files and checks the age of the files. The results are the same for all lab hosts, so a new host gets copies from an
// earlier host. If copying fails, only time is lost, so errors are ignored.

// CacheDir returns the directory where this user's labs and tests cache the results of slow builds: QEMU capabilities
// and guest images.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache" // root without a home directory: a service, or CI
	}
	return filepath.Join(dir, "quantix/lab")
}

func loadCapabilities(hostDir string) {
	copyChangedFiles(filepath.Join(CacheDir(), "capabilities"), filepath.Join(hostDir, "cache/qemu/capabilities"))
}

func saveCapabilities(hostDir string) {
	copyChangedFiles(filepath.Join(hostDir, "cache/qemu/capabilities"), filepath.Join(CacheDir(), "capabilities"))
}

// copyChangedFiles copies the XML files in from that are missing in to or have other content there.
func copyChangedFiles(from, to string) {
	files, _ := filepath.Glob(filepath.Join(from, "*.xml"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		target := filepath.Join(to, filepath.Base(file))
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, text) {
			continue
		}
		_ = writeAtomically(target, text)
	}
}

// writeAtomically writes a file by a rename, so that no reader sees an incomplete file.
func writeAtomically(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
