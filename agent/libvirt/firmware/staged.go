package firmware

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// stagedState is the file of a state that this host has received. The VM belongs to the source host until the
// migration succeeds, so the state gets its final place only with the definition.
type stagedState struct {
	Transfer fleet.TransferID `json:"transfer"`
	State    State            `json:"state"`
}

// stagedAt returns the file of the VM's received state.
func (f Files) stagedAt(id fleet.VMID) string {
	return filepath.Join(f.at(libDir+"/quantix/firmware"), string(id)+".json")
}

// Stage stores the state that a transfer has brought. It replaces that of an earlier transfer.
func (f Files) Stage(id fleet.VMID, of fleet.TransferID, s State) error {
	text, err := json.Marshal(stagedState{of, s})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.stagedAt(id)), 0o700); err != nil {
		return err
	}
	return replaceFile(f.stagedAt(id), text, keepUID)
}

// readStaged returns the VM's received state; nil: none.
func (f Files) readStaged(id fleet.VMID) (*stagedState, error) {
	file, err := hostfile.OpenImage(f.stagedAt(id), false)
	if hostfile.IsFileMissingError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out stagedState
	if err := json.NewDecoder(io.LimitReader(file, MaxEncodedBytes+4096)).Decode(&out); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return &out, nil
}

// IsStaged reports whether the transfer has brought the VM's received state.
func (f Files) IsStaged(id fleet.VMID, of fleet.TransferID) (bool, error) {
	s, err := f.readStaged(id)
	return s != nil && s.Transfer == of, err
}

// Discard removes the VM's received state, if the transfer has brought it; empty: any transfer.
func (f Files) Discard(id fleet.VMID, of fleet.TransferID) error {
	if of != "" {
		if is, err := f.IsStaged(id, of); err != nil || !is {
			return err
		}
	}
	err := os.Remove(f.stagedAt(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = SyncDir(filepath.Dir(f.stagedAt(id)))
	}
	return err
}

// HasStaged reports whether received state waits for Place.
func (f Files) HasStaged(id fleet.VMID) (bool, error) {
	staged, err := f.readStaged(id)
	return staged != nil, err
}

// StagedDefinition returns the received definition of an adopted VM; empty: none.
func (f Files) StagedDefinition(id fleet.VMID) (string, error) {
	staged, err := f.readStaged(id)
	if err != nil || staged == nil {
		return "", err
	}
	return staged.State.Definition, nil
}
