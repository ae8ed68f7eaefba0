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

// The files of a Keeper, in the agent's data directory.
const (
	stateFile   = "networks.json"        // what stands: it is made again at the next boot
	journalFile = "networks-change.json" // a change that does not stand yet
	undoneFile  = "networks-undone.json" // changes that were rolled back
	lockFile    = "networks-change.lock" // held by who changes or undoes
)

// before is what a device, or the bridge that it was in, was before a change.
type before struct {
	Bridged   bool      `json:"bridged,omitempty"` // it was in the network's bridge, which had the addresses
	Up        bool      `json:"up,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
	Routes    []Route   `json:"routes,omitempty"`

	// Of a bridge that was there already, which stays with the guests that are on it: whether the device was in it, and what it had itself.
	Stood     bool      `json:"stood,omitempty"`
	Joined    bool      `json:"joined,omitempty"`
	Own       []Address `json:"own,omitempty"`
	OwnRoutes []Route   `json:"ownRoutes,omitempty"`
	STP       bool      `json:"stp,omitempty"`
}

// beforeApply is what a change that brings the network about finds.
func beforeApply(p present) before {
	was := before{Up: p.uplink.Up, Addresses: p.uplink.Addresses, Routes: p.uplink.Routes}
	if b := p.bridge; b != nil {
		was.Stood, was.Joined, was.Own, was.OwnRoutes, was.STP = true, p.uplink.Master == b.Name, b.Addresses, b.Routes, b.STP
	}
	return was
}

// beforeRelease is what a change that takes the network away finds.
func beforeRelease(p present) before {
	return before{Bridged: true, Up: p.uplink.Up, Addresses: p.bridge.Addresses, Routes: p.bridge.Routes, STP: p.bridge.STP}
}

// kept is a network that stands on this host.
type kept struct {
	Network   fleet.Network `json:"network"`
	Boot      string        `json:"boot"`                // in which it was last made
	Addresses []Address     `json:"addresses,omitempty"` // of its bridge: those of the device, should it come up without
	Routes    []Route       `json:"routes,omitempty"`
}

// state is all that stands.
type state struct {
	Networks map[fleet.NetworkID]kept `json:"networks"`
}

// change is the journal of one that does not stand yet: enough to undo it from wherever it was left, by whoever does.
type change struct {
	ID      string        `json:"id"`
	Order   string        `json:"order"` // of the portal, by which it was asked for
	Boot    string        `json:"boot"`
	Network fleet.Network `json:"network"`
	Before  before        `json:"before"`
}

// undone is a change that was rolled back.
type undone struct {
	Order string    `json:"order"`
	At    time.Time `json:"at"`
	Words string    `json:"words"`
}

// load reads a file; where there is none, into stays as it is.
func load(dir, name string, into any) (found bool, err error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("read %s: %w; remove the file to start without it", path, err)
	}
	return true, nil
}

// save replaces a file as a whole, and returns when it is on the disk.
func save(dir, name string, value any) error {
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

func remove(dir, name string) error {
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
	_ = d.Sync() // not every file system can
	return nil
}

// noteUndone keeps that a change was rolled back, and ends its journal.
func noteUndone(dir string, c change, words string) error {
	all := map[fleet.NetworkID]undone{}
	if _, err := load(dir, undoneFile, &all); err != nil {
		all = map[fleet.NetworkID]undone{}
	}
	all[c.Network.ID] = undone{Order: c.Order, At: time.Now().UTC().Truncate(time.Second), Words: words}
	return errors.Join(save(dir, undoneFile, all), remove(dir, journalFile))
}
