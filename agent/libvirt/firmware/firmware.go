// Package firmware reads and writes the files of a VM's UEFI variables and TPM state: copies for snapshots, and the
// transfer to another host in a cold migration.
package firmware

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// libDir is libvirt's directory of persistent files, as libvirt's definitions name it.
const libDir = "/var/lib/libvirt"

// Files are the firmware files of one host. The zero value is the host of this process.
type Files struct {
	// Lib is libDir as this process sees it; empty: libDir.
	Lib string
}

// at returns the path of a file of libvirt as this process sees it.
func (f Files) at(path string) string {
	if rest, ok := strings.CutPrefix(path, libDir+"/"); ok {
		return filepath.Join(cmp.Or(f.Lib, libDir), rest)
	}
	return path
}

// HasState reports whether the domain has UEFI variables or a TPM.
func HasState(x *libvirtxml.Domain) bool {
	return domxml.VariablesPath(x) != "" || x.OS != nil && x.OS.NVRam != nil || hasTPM(x)
}

func hasTPM(x *libvirtxml.Domain) bool { return x.Devices != nil && len(x.Devices.TPMs) > 0 }

// variablesOf returns the path of the domain's UEFI variables; empty: none.
func (f Files) variablesOf(x *libvirtxml.Domain) string {
	file := domxml.VariablesPath(x)
	if file == "" {
		return ""
	}
	return f.at(file)
}

// tpmOf returns the directory of a VM's TPM state.
func (f Files) tpmOf(id fleet.VMID) string { return filepath.Join(f.at(domxml.TPMDir), string(id)) }

// possibleVariables returns the possible files of the VM's UEFI variables.
func (f Files) possibleVariables(id fleet.VMID) (out []string) {
	for _, suffix := range []string{domxml.PlainVarsSuffix, domxml.SecureVarsSuffix} {
		out = append(out, filepath.Join(f.at(domxml.NVRAMDir), string(id)+suffix))
	}
	return out
}

// MissingFile returns the file of the definition's UEFI that this host does not have, and its element; empty: none.
func (f Files) MissingFile(x *libvirtxml.Domain) (path, element string) {
	if x.OS == nil {
		return "", ""
	}
	files := map[string]string{}
	if x.OS.Loader != nil {
		files["loader"] = x.OS.Loader.Path
	}
	if x.OS.NVRam != nil {
		files["nvram"] = x.OS.NVRam.Template
	}
	for element, path := range files {
		if _, err := os.Stat(path); path != "" && err != nil {
			return path, element
		}
	}
	return "", ""
}

// HasVariables reports whether this host has a file of the VM's UEFI variables, perhaps that of another host.
func (f Files) HasVariables(id fleet.VMID) (bool, error) {
	for _, file := range f.possibleVariables(id) {
		switch _, err := os.Lstat(file); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, nil
}

// RemoveVariables removes the UEFI variables of a VM that this host does not have.
func (f Files) RemoveVariables(id fleet.VMID) (failed error) {
	for _, file := range f.possibleVariables(id) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("remove the file of the VM's UEFI variables: %w", err))
		}
	}
	return failed
}

// Remove removes the UEFI variables and the TPM state of a VM that this host does not have.
func (f Files) Remove(id fleet.VMID) error {
	err := f.RemoveVariables(id)
	if tpm := os.RemoveAll(f.tpmOf(id)); tpm != nil {
		err = errors.Join(err, fmt.Errorf("remove the state of the VM's TPM: %w", tpm))
	}
	return err
}

// RemoveNamedAfterDomain removes the UEFI variables of a migrated VM whose file libvirt named after the domain.
func (f Files) RemoveNamedAfterDomain(x *libvirtxml.Domain) error {
	file := f.variablesOf(x)
	if file != filepath.Join(f.at(domxml.NVRAMDir), x.Name+domxml.PlainVarsSuffix) {
		return nil
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file of the VM's UEFI variables: %w", err)
	}
	return nil
}

// SyncDir makes changes to the directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// keepUID leaves a new file with this process's user.
const keepUID = -1

// replaceFile writes the file, synced, owned by the user uid and with mode 0600. A crash leaves the old file or the new
// one.
func replaceFile(path string, data []byte, uid int) error {
	partial := path + fleet.PartialSuffix
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNewFile(partial, data, uid); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// writeNewFile writes and syncs a file that does not exist, owned by the user uid and with mode 0600. It sets both on the
// open file, because the user of the directory may replace the path.
func writeNewFile(path string, data []byte, uid int) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	for _, do := range []func() error{func() error { return out.Chmod(0o600) }, func() error { return out.Chown(uid, -1) }, out.Sync} {
		if err == nil {
			err = do()
		}
	}
	return errors.Join(err, out.Close())
}
