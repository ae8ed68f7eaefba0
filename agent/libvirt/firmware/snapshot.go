package firmware

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// maxSavedBytes limits the size of a VM's UEFI variables and TPM state. UEFI variables need some 100 KiB, and TPM state
// needs less.
const maxSavedBytes = 64 << 20

// paths returns the paths of the domain's UEFI variables and TPM state.
func (f Files) paths(x *libvirtxml.Domain) map[string]string {
	out := map[string]string{}
	if file := f.variablesOf(x); file != "" {
		out["nvram"] = file
	}
	if hasTPM(x) {
		out["tpm"] = f.tpmOf(fleet.VMID(x.UUID))
	}
	return out
}

// Save copies the current UEFI variables and TPM state for a snapshot. It does nothing if the VM has neither or if the
// copy exists, because a copy gets its final name only when complete. saved reports whether a copy exists now.
func (f Files) Save(x *libvirtxml.Domain, to string) (saved bool, err error) {
	if _, err := os.Stat(to); err == nil {
		return true, nil
	}
	partial := to + fleet.PartialSuffix
	if err := os.RemoveAll(partial); err != nil {
		return false, err
	}
	for name, from := range f.paths(x) {
		err := copyFileOrDir(from, filepath.Join(partial, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the guest never ran
		}
		if err != nil {
			return false, err
		}
		saved = true
	}
	if !saved {
		return false, nil
	}
	if err := SyncDir(partial); err != nil {
		return false, err
	}
	if err := os.Rename(partial, to); err != nil {
		return false, err
	}
	return true, SyncDir(filepath.Dir(to))
}

// Restore replaces the VM's current UEFI variables and TPM state by a snapshot's copies. A repeated call is harmless.
func (f Files) Restore(x *libvirtxml.Domain, from string) error {
	for name, to := range f.paths(x) {
		copied := filepath.Join(from, name)
		if _, err := os.Lstat(copied); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		partial := to + fleet.PartialSuffix
		if err := os.RemoveAll(partial); err != nil {
			return err
		}
		if err := copyFileOrDir(copied, partial); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := os.Rename(partial, to); err != nil {
			return err
		}
		if err := SyncDir(filepath.Dir(to)); err != nil {
			return err
		}
	}
	return nil
}

// copyFileOrDir copies a file or a directory with owners and modes. It skips links and devices.
func copyFileOrDir(from, to string) error {
	left := int64(maxSavedBytes)
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rest)
		switch {
		case d.IsDir():
			if err := os.MkdirAll(at, info.Mode().Perm()); err != nil {
				return err
			}
		case d.Type().IsRegular():
			if left -= info.Size(); left < 0 {
				return fleet.Errorf(fleet.Conflict, "The VM's firmware or TPM state in %s is larger than 64 MiB.", from)
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return err
			}
			if err := copyStateFile(path, at, info.Mode().Perm()); err != nil {
				return err
			}
		default:
			return nil
		}
		return hostfile.CopyOwner(at, info)
	})
}

// copyStateFile copies one file of a VM's state and syncs the copy.
func copyStateFile(from, to string, mode fs.FileMode) error {
	src, err := hostfile.OpenImage(from, false)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxSavedBytes))
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}
