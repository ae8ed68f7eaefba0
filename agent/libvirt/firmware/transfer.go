package firmware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// Limits of a State. UEFI variables need some 500 KiB, and TPM state needs less.
const (
	maxStateBytes = 8 << 20
	// MaxEncodedBytes is the largest size of an encoded State.
	MaxEncodedBytes = 12 << 20
	// maxDefinitionBytes is far above the size of a definition that can be adopted.
	maxDefinitionBytes = 512 << 10
	maxTPMFiles        = 16
	sentPieceBytes     = 1 << 20
)

// tpmVersionDir is the directory of a TPM 2.0 below the VM's directory.
const tpmVersionDir = "tpm2"

// tpmFiles are the files of a TPM 2.0 that a host sends and accepts.
var tpmFiles = []string{"tpm2-00.permall", "tpm2-00.savestate", "tpm2-00.volatilestate"}

// isScratchFile reports whether swtpm uses the file only while it runs.
func isScratchFile(name string) bool { return name == ".lock" || strings.HasPrefix(name, "TMP") }

// State is what a cold migration transfers besides the disks: the content of a VM's UEFI variables and TPM state, and the
// definition of an adopted VM. A part is empty if the VM has never run with it. It has
// no paths: the receiving host derives them from its own definition of the VM.
type State struct {
	Variables  []byte            `json:"variables,omitempty"`
	SecureBoot bool              `json:"secureBoot,omitempty"` // Variables are those for secure boot
	TPM        map[string][]byte `json:"tpm,omitempty"`        // by name, one of tpmFiles
	// Definition is the persistent definition of an adopted VM, as the receiving host is to define it; empty: the
	// receiving host makes a definition from the spec.
	Definition string `json:"definition,omitempty"`
}

// Stamp identifies the content of all parts.
func (s State) Stamp() string {
	out := s.variablesStamp() + "/" + s.tpmStamp()
	if s.Definition != "" {
		out += "/" + partStamp([]byte(s.Definition))
	}
	return out
}

func (s State) variablesStamp() string { return partStamp(s.Variables) }

func (s State) tpmStamp() string {
	var all bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s.TPM)) {
		fmt.Fprintf(&all, "%s %d\n%s", name, len(s.TPM[name]), s.TPM[name])
	}
	return partStamp(all.Bytes())
}

// partStamp identifies the content of a part; "-": the part is missing.
func partStamp(data []byte) string {
	if len(data) == 0 {
		return "-"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// IsRestOf reports whether each file equals that of the state with the stamp, or is missing.
func (s State) IsRestOf(stamp string) bool {
	variables, rest, _ := strings.Cut(stamp, "/")
	tpm, _, _ := strings.Cut(rest, "/")
	return (s.variablesStamp() == variables || len(s.Variables) == 0) && (s.tpmStamp() == tpm || len(s.TPM) == 0)
}

// Encode returns the state as bytes to send.
func (s State) Encode() ([]byte, error) { return json.Marshal(s) }

// Pieces returns the pieces of encoded data. It calls unchanged after the last piece.
func Pieces(data []byte, unchanged func() error) transfer.Pieces {
	return func(_ context.Context, do func(int64, []byte, int64) error) error {
		at := int64(0)
		for piece := range slices.Chunk(data, sentPieceBytes) {
			if err := do(at, piece, int64(len(piece))); err != nil {
				return err
			}
			at += int64(len(piece))
		}
		return unchanged()
	}
}

// Decode decodes and checks the bytes of another host, which may be hostile.
func Decode(data []byte) (s State, err error) {
	if len(data) > MaxEncodedBytes {
		return s, errors.New("the source host sends more firmware state than a VM can have")
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(&s); err != nil {
		return State{}, fmt.Errorf("the source host sends invalid firmware state: %w", err)
	}
	total := len(s.Variables)
	for name, content := range s.TPM {
		if !slices.Contains(tpmFiles, name) {
			return State{}, fmt.Errorf("the source host sends the file %q, which is no file of a TPM", name)
		}
		total += len(content)
	}
	if total > maxStateBytes || len(s.Definition) > maxDefinitionBytes {
		return State{}, errors.New("the source host sends more firmware state than a VM can have")
	}
	return s, nil
}

// checkSendable refuses firmware whose state Quantix cannot move.
func checkSendable(x *libvirtxml.Domain) error {
	if x.OS != nil && x.OS.NVRam != nil && x.OS.NVRam.Source != nil {
		return fleet.Errorf(fleet.Conflict, "The VM's UEFI variables are not in a file of libvirt's own, so they cannot migrate.")
	}
	if !hasTPM(x) {
		return nil
	}
	for _, d := range x.Devices.TPMs {
		switch {
		case d.Backend == nil || d.Backend.Emulator == nil || d.Backend.Emulator.Version == "1.2":
			return fleet.Errorf(fleet.Conflict, "The VM's TPM is not an emulated TPM 2.0, so its state cannot migrate.")
		case d.Backend.Emulator.Source != nil:
			return fleet.Errorf(fleet.Conflict, "The state of the VM's TPM is not in libvirt's own directory, so it cannot migrate.")
		case d.Backend.Emulator.Encryption != nil:
			return fleet.Errorf(fleet.Conflict, "The state of the VM's TPM is encrypted with a secret that only this host has, so it cannot migrate.")
		}
	}
	return nil
}

// Read reads the state of a domain that is off.
func (f Files) Read(x *libvirtxml.Domain) (State, error) {
	if err := checkSendable(x); err != nil {
		return State{}, err
	}
	tpm := fleet.VMID("")
	if hasTPM(x) {
		tpm = fleet.VMID(x.UUID)
	}
	return f.read(f.variablesOf(x), domxml.HasSecureBoot(x), tpm)
}

// ReadRest reads the files that a VM without a definition has left on this host.
func (f Files) ReadRest(vm fleet.VM) (State, error) {
	secure := vm.Spec.Security.SecureBoot
	of := f.possibleVariables(vm.ID)
	file := of[0]
	if secure {
		file = of[1]
	}
	return f.read(file, secure, vm.ID)
}

// read reads the file of UEFI variables, and the TPM state of the VM; empty: none.
func (f Files) read(variables string, secureBoot bool, tpm fleet.VMID) (s State, err error) {
	left := int64(maxStateBytes)
	if variables != "" {
		if s.Variables, err = readVariables(variables, &left); err != nil {
			return State{}, err
		}
		s.SecureBoot = secureBoot && len(s.Variables) > 0
	}
	if tpm != "" {
		if s.TPM, err = readTPM(f.tpmOf(tpm), &left); err != nil {
			return State{}, err
		}
	}
	return s, nil
}

func readVariables(path string, left *int64) ([]byte, error) {
	file, err := hostfile.OpenImage(path, false)
	if hostfile.IsFileMissingError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file, left)
}

// readBounded reads the file, which must not have more than left bytes.
func readBounded(file *os.File, left *int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(data)); *left < 0 {
		return nil, fleet.Errorf(fleet.Conflict, "The VM's UEFI variables and TPM state are larger than %s, so they cannot migrate.", fleet.FormatBytes(maxStateBytes))
	}
	return data, nil
}

// readRegular is readBounded for a file whose type may have changed since its directory was read.
func readRegular(file *os.File, left *int64) ([]byte, error) {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: file.Name(), Err: fs.ErrInvalid}
	}
	if err != nil {
		return nil, err
	}
	return readBounded(file, left)
}

// readTPM reads the files of a TPM. swtpm's user owns the directory, so its links are not followed to other places.
func readTPM(dir string, left *int64) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if hostfile.IsFileMissingError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	names, err := fs.ReadDir(root.FS(), tpmVersionDir)
	if hostfile.IsFileMissingError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string][]byte
	for _, entry := range names {
		if isScratchFile(entry.Name()) {
			continue
		}
		if !slices.Contains(tpmFiles, entry.Name()) || !entry.Type().IsRegular() || len(out) >= maxTPMFiles {
			return nil, fleet.Errorf(fleet.Conflict, "The VM's TPM has the file %q, which Quantix does not know, so its state cannot migrate.", entry.Name())
		}
		file, err := root.OpenFile(filepath.Join(tpmVersionDir, entry.Name()), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		data, err := readRegular(file, left)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string][]byte{}
		}
		out[entry.Name()] = data
	}
	return out, nil
}

// Place puts the received state, if there is one, where the definition expects it, before libvirt gets the definition.
// It replaces files of an earlier time. The state stays stored until Discard, so that a repeated call completes an
// interrupted one. uid is QEMU's user, who owns the UEFI variables. libvirt gives the TPM's files to swtpm's user.
func (f Files) Place(x *libvirtxml.Domain, uid int) error {
	id := fleet.VMID(x.UUID)
	staged, err := f.readStaged(id)
	if err != nil || staged == nil {
		return err
	}
	if len(staged.State.Variables) > 0 && f.variablesOf(x) != "" && staged.State.SecureBoot != domxml.HasSecureBoot(x) {
		return fleet.Errorf(fleet.Conflict, "Secure boot was changed during the migration, so the VM's UEFI variables do not fit. Undo that change.")
	}
	if len(staged.State.TPM) > 0 && !hasTPM(x) {
		return fleet.Errorf(fleet.Conflict, "The VM's TPM was removed during the migration. Add it again, and remove it after this.")
	}
	if err := f.Remove(id); err != nil {
		return err
	}
	if file := f.variablesOf(x); file != "" && len(staged.State.Variables) > 0 {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := replaceFile(file, staged.State.Variables, uid); err != nil {
			return err
		}
	}
	if len(staged.State.TPM) == 0 {
		return nil
	}
	return f.placeTPM(id, staged.State.TPM)
}

// placeTPM creates the directory of the VM's TPM state.
func (f Files) placeTPM(id fleet.VMID, files map[string][]byte) error {
	dir := f.tpmOf(id)
	partial := dir + fleet.PartialSuffix
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(partial, tpmVersionDir), 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := writeNewFile(filepath.Join(partial, tpmVersionDir, name), content, keepUID); err != nil {
			return err
		}
	}
	for _, made := range []string{filepath.Join(partial, tpmVersionDir), partial} {
		if err := SyncDir(made); err != nil {
			return err
		}
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}
