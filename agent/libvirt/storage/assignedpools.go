package storage

import (
	"path/filepath"
	"sync"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// AppliedVolumePath returns the volume's path at the time it was applied, or "" if unknown.
func AppliedVolumePath(applied hypervisor.AppliedRecord, ref fleet.Volref) string {
	p, ok := applied.Pools[ref.PoolID]
	switch {
	case ok && p.Spec != nil && BlockVolumeMappingOf(*p.Spec) != nil:
		return BlockVolumeMappingOf(*p.Spec).address(fleet.Pool{ID: ref.PoolID, Name: p.Name, Spec: *p.Spec}, ref.Volume)
	case ok && p.Path != "":
		return filepath.Join(p.Path, ref.Volume)
	}
	return ""
}

// AssignedPools records the pools that the portal assigned to this host: file pools by path, block pools by ID.
type AssignedPools struct {
	mu         sync.Mutex
	byPath     map[string]fleet.Pool
	blockPools map[fleet.PoolID]fleet.Pool
}

// Record adds the pools, or replaces earlier records of them.
func (a *AssignedPools) Record(pools []fleet.Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byPath == nil {
		a.byPath, a.blockPools = map[string]fleet.Pool{}, map[fleet.PoolID]fleet.Pool{}
	}
	for _, p := range pools {
		if BlockVolumeMappingOf(p.Spec) != nil {
			a.blockPools[p.ID] = p
			continue
		}
		a.byPath[filepath.Clean(p.Spec.Path)] = p
	}
}

// poolOfFile returns the file pool whose directory contains the file.
func (a *AssignedPools) poolOfFile(file string) (fleet.Pool, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.byPath[filepath.Dir(file)]
	return p, ok
}

// BlockVolumeAt returns the block pool and the volume of an address.
func (a *AssignedPools) BlockVolumeAt(address string) (p fleet.Pool, volume string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.blockPools {
		if v := BlockVolumeMappingOf(p.Spec).volumeAt(p, address); v != "" {
			return p, v, true
		}
	}
	return fleet.Pool{}, "", false
}

// volumeAt returns the volume of a file path or block address, or nil if no pool has it.
func (a *AssignedPools) volumeAt(file string) *fleet.Volref {
	if p, volume, ok := a.BlockVolumeAt(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: volume}
	}
	if p, ok := a.poolOfFile(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: filepath.Base(file)}
	}
	return nil
}

// Lookup returns the functions that find the volumes of a definition.
func (a *AssignedPools) Lookup() domxml.VolumeLookup {
	return domxml.VolumeLookup{AppliedPath: AppliedVolumePath, VolumeAt: a.volumeAt}
}
