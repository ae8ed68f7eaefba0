package libvirt

import (
	"path/filepath"
	"sync"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// appliedVolumePath returns the volume's path at the time it was applied, or "" if unknown.
func appliedVolumePath(applied hypervisor.Applied, ref fleet.Volref) string {
	p, ok := applied.Pools[ref.PoolID]
	switch {
	case ok && p.Spec != nil && blockMappingOf(*p.Spec) != nil:
		return blockMappingOf(*p.Spec).address(fleet.Pool{ID: ref.PoolID, Name: p.Name, Spec: *p.Spec}, ref.Volume)
	case ok && p.Path != "":
		return filepath.Join(p.Path, ref.Volume)
	}
	return ""
}

// assignedPools records the pools that the portal assigned to this host: file pools by path, block pools by ID.
type assignedPools struct {
	mu         sync.Mutex
	byPath     map[string]fleet.Pool
	blockPools map[fleet.PoolID]fleet.Pool
}

func (a *assignedPools) record(pools []fleet.Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byPath == nil {
		a.byPath, a.blockPools = map[string]fleet.Pool{}, map[fleet.PoolID]fleet.Pool{}
	}
	for _, p := range pools {
		if blockMappingOf(p.Spec) != nil {
			a.blockPools[p.ID] = p
			continue
		}
		a.byPath[filepath.Clean(p.Spec.Path)] = p
	}
}

// poolOfFile returns the file pool whose directory contains the file.
func (a *assignedPools) poolOfFile(file string) (fleet.Pool, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.byPath[filepath.Dir(file)]
	return p, ok
}

// blockAt returns the block pool and the volume of an address.
func (a *assignedPools) blockAt(address string) (p fleet.Pool, volume string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.blockPools {
		if v := blockMappingOf(p.Spec).volumeAt(p, address); v != "" {
			return p, v, true
		}
	}
	return fleet.Pool{}, "", false
}

// volumeAt returns the volume of a file path or block address, or nil if no pool has it.
func (a *assignedPools) volumeAt(file string) *fleet.Volref {
	if p, volume, ok := a.blockAt(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: volume}
	}
	if p, ok := a.poolOfFile(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: filepath.Base(file)}
	}
	return nil
}

// lookup returns the functions that find the volumes of a definition.
func (a *assignedPools) lookup() domxml.VolumeLookup {
	return domxml.VolumeLookup{AppliedPath: appliedVolumePath, VolumeAt: a.volumeAt}
}
