//go:build linux

package lab

import (
	"bytes"
	"os"
	"path/filepath"
)

// libvirt asks each emulator what it can do before the first define, which takes seconds, and keeps the answers in files
// that it checks for age by itself. All hosts' answers are the same, so a new host gets those of one before it. Failing
// to copy them costs only time, so errors pass in silence.

// CacheDir is where this user's labs and tests keep what is slow to make: QEMU's answers and the guest's image.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache" // root without a home: a service, or CI
	}
	return filepath.Join(dir, "quantix/lab")
}

func loadCapabilities(hostDir string) {
	copyNewer(filepath.Join(CacheDir(), "capabilities"), filepath.Join(hostDir, "cache/qemu/capabilities"))
}

func saveCapabilities(hostDir string) {
	copyNewer(filepath.Join(hostDir, "cache/qemu/capabilities"), filepath.Join(CacheDir(), "capabilities"))
}

// copyNewer copies the XML files of from that are missing in to or differ there.
func copyNewer(from, to string) {
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

// writeAtomically puts data at path by a rename, so that no reader sees half of it.
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
