package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quantix/internal/fleet"
)

// Files of Devices in the agent's data directory.
const (
	stateFile      = "networks.json"        // applied networks, to recreate at the next boot
	journalFile    = "networks-change.json" // an unconfirmed change
	rolledBackFile = "networks-undone.json" // changes that were rolled back
	lockFile       = "networks-change.lock" // held during a change or rollback
)

// previousState is the state of a device, and of its bridge, before a change.
type previousState struct {
	// the device was a port of the network's bridge, and the bridge had the device's addresses
	Bridged   bool        `json:"bridged,omitempty"`
	Up        bool        `json:"up,omitempty"`
	Addresses []IPAddress `json:"addresses,omitempty"`
	Routes    []Route     `json:"routes,omitempty"`

	// The following fields describe a bridge that existed before the change (BridgeExisted). WasPort: the device was a
	// port of that bridge. BridgeAddresses and BridgeRoutes are the bridge's addresses and routes.
	BridgeExisted   bool        `json:"stood,omitempty"`
	WasPort         bool        `json:"joined,omitempty"`
	BridgeAddresses []IPAddress `json:"own,omitempty"`
	BridgeRoutes    []Route     `json:"ownRoutes,omitempty"`
	STP             bool        `json:"stp,omitempty"`
}

// stateBeforeApply returns the state before an apply.
func stateBeforeApply(p hostState) previousState {
	was := previousState{Up: p.uplink.Up, Addresses: p.uplink.Addresses, Routes: p.uplink.Routes}
	if b := p.bridge; b != nil {
		was.BridgeExisted, was.WasPort, was.BridgeAddresses, was.BridgeRoutes, was.STP = true, p.uplink.Master == b.Name, b.Addresses, b.Routes, b.STP
	}
	return was
}

// stateBeforeRelease returns the state before a release.
func stateBeforeRelease(p hostState) previousState {
	return previousState{Bridged: true, Up: p.uplink.Up, Addresses: p.bridge.Addresses, Routes: p.bridge.Routes, STP: p.bridge.STP}
}

// appliedNetwork is the record of an applied network.
type appliedNetwork struct {
	Network fleet.Network `json:"network"`
	Boot    string        `json:"boot"` // the host boot of its last creation
	// addresses that moved from the device to the bridge, in case the device comes up without them after a boot
	Addresses []IPAddress `json:"addresses,omitempty"`
	Routes    []Route     `json:"routes,omitempty"`
}

// networksFile is the content of the networks file.
type networksFile struct {
	Networks map[fleet.NetworkID]appliedNetwork `json:"networks"`
}

// unconfirmedChange is the journal of an unconfirmed change. It contains all that a process needs for a rollback.
type unconfirmedChange struct {
	ID      string        `json:"id"`
	JobID   string        `json:"order"` // the job's ID
	Boot    string        `json:"boot"`
	Network fleet.Network `json:"network"`
	Before  previousState `json:"before"`
}

// rolledBackChange is the record of a change that was rolled back.
type rolledBackChange struct {
	JobID string    `json:"order"`
	At    time.Time `json:"at"`
	Words string    `json:"words"`
}

// loadJSON decodes a JSON file into value. If the file does not exist, value stays unchanged and found is false.
func loadJSON(dir, name string, value any) (found bool, err error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return false, fmt.Errorf("read %s: %w; remove the file to start without it", path, err)
	}
	return true, nil
}

// saveJSON replaces a file atomically, and returns once the file is on disk.
func saveJSON(dir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func removeFile(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // some file systems do not support syncing directories
	return nil
}

// recordRollback records that a change was rolled back, and deletes its journal.
func recordRollback(dir string, c unconfirmedChange, words string) error {
	all := map[fleet.NetworkID]rolledBackChange{}
	if _, err := loadJSON(dir, rolledBackFile, &all); err != nil {
		all = map[fleet.NetworkID]rolledBackChange{}
	}
	all[c.Network.ID] = rolledBackChange{JobID: c.JobID, At: time.Now().UTC().Truncate(time.Second), Words: words}
	return errors.Join(saveJSON(dir, rolledBackFile, all), removeFile(dir, journalFile))
}
