// Package seed stores first-boot data of guests: an ISO image or a plain file for each VM and each version of the data.
// The data may contain secrets: only root and, while the guest runs, the hypervisor can read it.
package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"quantix/internal/fleet"
)

// DefaultDir is the directory of the first-boot files. QEMU runs as another user: it can open files in the directory by
// name but cannot list the directory.
const DefaultDir = "/var/lib/libvirt/quantix"

const (
	maxDiscBytes  = 1 << 20 // limit of all files of a disc, in bytes
	partialSuffix = ".part" // suffix of incomplete files
	workSuffix    = ".work" // suffix of the working directory of a disc
)

var (
	vmIDPattern     = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	seedFilePattern = regexp.MustCompile(`^(cloud-init|cloud-config|ignition|sysprep)-([1-9][0-9]{0,9})\.(iso|ign)$`)
	fileNamePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]{0,31}$`)
)

// Store is a directory of first-boot data. A zero Store uses DefaultDir.
type Store struct{ Dir string }

func (s Store) dirOf(id fleet.VMID) (string, error) {
	if !vmIDPattern.MatchString(string(id)) {
		return "", fmt.Errorf("%q is not a VM's ID", id)
	}
	dir := s.Dir
	if dir == "" {
		dir = DefaultDir
	}
	return filepath.Join(dir, string(id)), nil
}

// PathOf returns the path for a version of the VM's first-boot data, whether the file exists or not.
func (s Store) PathOf(id fleet.VMID, of fleet.VMFirstBoot) (string, error) {
	dir, err := s.dirOf(id)
	if err != nil {
		return "", err
	}
	ending := "iso"
	if of.Kind == fleet.Ignition {
		ending = "ign"
	}
	name := fmt.Sprintf("%s-%d.%s", of.Kind, of.Number, ending)
	if !seedFilePattern.MatchString(name) {
		return "", fmt.Errorf("%q is not a valid file name for first-boot data", name)
	}
	return filepath.Join(dir, name), nil
}

// ParsePath returns the first-boot version that a path belongs to; false: the path has another form.
func ParsePath(path string) (fleet.VMFirstBoot, bool) {
	m := seedFilePattern.FindStringSubmatch(filepath.Base(path))
	if m == nil || !vmIDPattern.MatchString(filepath.Base(filepath.Dir(path))) {
		return fleet.VMFirstBoot{}, false
	}
	n, err := strconv.Atoi(m[2])
	return fleet.VMFirstBoot{Kind: fleet.FirstBootKind(m[1]), Number: n}, err == nil
}

// Exists reports whether a version of the VM's first-boot data exists and is complete.
func (s Store) Exists(id fleet.VMID, of fleet.VMFirstBoot) (bool, error) {
	path, err := s.PathOf(id, of)
	if err != nil {
		return false, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return info.Mode().IsRegular() && info.Size() > 0, nil
}

// Write writes files as a version of the VM's first-boot data. The file gets its name only once it is synced; an error
// leaves no file.
func (s Store) Write(id fleet.VMID, of fleet.VMFirstBoot, files map[string][]byte) (err error) {
	path, err := s.PathOf(id, of)
	if err != nil {
		return err
	}
	if err := checkFiles(of, files); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Mkdir(d, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	temp := path + partialSuffix
	if err := os.RemoveAll(temp); err != nil { // left by an interrupted attempt
		return err
	}
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
			return
		}
		err = syncDir(dir)
	}()
	if of.Kind == fleet.Ignition {
		_, err = f.Write(files["config.ign"])
	} else {
		err = writeDisc(f, path+workSuffix, volumeLabel(of.Kind), files)
	}
	if err == nil {
		err = f.Sync()
	}
	return err
}

func checkFiles(of fleet.VMFirstBoot, files map[string][]byte) error {
	all := 0
	for name, data := range files {
		if !fileNamePattern.MatchString(name) {
			return fmt.Errorf("the portal sent first-boot data with the invalid file name %q", name)
		}
		all += len(data)
	}
	if len(files) == 0 || len(files) > 8 || all > maxDiscBytes || of.Kind == fleet.Ignition && len(files["config.ign"]) == 0 {
		return fmt.Errorf("the portal sent first-boot data that is empty or incomplete, or has more than 8 files or %d KiB", maxDiscBytes>>10)
	}
	return nil
}

// volumeLabel returns the disc's volume label, by which cloud-init finds the disc; empty for other kinds.
func volumeLabel(k fleet.FirstBootKind) string {
	if k.UsesCloudInit() {
		return "cidata"
	}
	return "UNATTEND"
}

// writeDisc writes files as an ISO 9660 image with long names for Linux and Windows. work is the path of its temporary
// directory.
func writeDisc(f *os.File, work, label string, files map[string][]byte) (err error) {
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	disc, err := iso9660.Create(file.New(f, false), 0, 0, 2048, work)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			return err
		}
	}
	return disc.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: label})
}

// RemoveExcept deletes the VM's first-boot files except those at paths. If nothing is left, it also deletes the VM's
// directory.
func (s Store) RemoveExcept(id fleet.VMID, paths ...string) error {
	dir, err := s.dirOf(id)
	if err != nil {
		return err
	}
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := false
	for _, e := range all {
		path := filepath.Join(dir, e.Name())
		if containsPath(paths, path) {
			kept = true
			continue
		}
		if !seedFilePattern.MatchString(strings.TrimSuffix(strings.TrimSuffix(e.Name(), partialSuffix), workSuffix)) {
			kept = true // Quantix has not written this file
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if kept {
		return nil
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func containsPath(paths []string, path string) bool {
	for _, p := range paths {
		if p != "" && filepath.Clean(p) == path {
			return true
		}
	}
	return false
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
