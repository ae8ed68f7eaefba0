package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"

	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// PoolBookFile is the name of PoolRecords's file in the agent's directory.
const PoolBookFile = "pools.json"

// PoolRecords stores what the agent must know about the host's pools across restarts, and libvirt does not store. It is
// safe for concurrent use.
type PoolRecords struct {
	path    string // empty: only in memory
	boot    string
	mu      sync.Mutex
	records map[string]pooldir.RecordedPool // by name
}

// OpenPoolRecords reads the PoolRecords of an agent's directory. With an empty dir the records exist in memory only.
func OpenPoolRecords(dir string) (*PoolRecords, error) {
	b := &PoolRecords{records: map[string]pooldir.RecordedPool{}}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		b.boot = strings.TrimSpace(string(boot))
	}
	if dir == "" {
		return b, nil
	}
	b.path = dir + "/" + PoolBookFile
	data, err := os.ReadFile(b.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, &b.records); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove the file to start without it", b.path, err)
		}
	}
	return b, nil
}

// BootID returns the ID of the host's current boot.
func (b *PoolRecords) BootID() string { return b.boot }

// RecordOf returns the record of the pool. A record of another pool with the same name is not returned.
func (b *PoolRecords) RecordOf(p fleet.Pool) (pooldir.RecordedPool, bool) {
	k, ok := b.RecordNamed(p.Name)
	if !ok || k.ID != p.ID {
		return pooldir.RecordedPool{}, false
	}
	return k, true
}

// RecordNamed returns the record of the pool with that name.
func (b *PoolRecords) RecordNamed(name string) (pooldir.RecordedPool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ok := b.records[name]
	return k, ok
}

// RecordContaining returns the record of the file pool whose directory contains path, and that directory.
func (b *PoolRecords) RecordContaining(path string) (dir string, of pooldir.RecordedPool, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.records {
		if k.Path != "" && strings.HasPrefix(path, strings.TrimSuffix(k.Path, "/")+"/") && len(k.Path) > len(dir) {
			dir, of, ok = k.Path, k, true
		}
	}
	return dir, of, ok
}

// Put records a pool. It writes the file only after a change.
func (b *PoolRecords) Put(name string, k pooldir.RecordedPool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.records[name]
	if ok && old.Equal(k) {
		return nil
	}
	next := maps.Clone(b.records)
	next[name] = k
	return b.save(next)
}

// Forget deletes the record of a released pool.
func (b *PoolRecords) Forget(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.records[name]; !ok {
		return nil
	}
	next := maps.Clone(b.records)
	delete(next, name)
	return b.save(next)
}

// save writes the records. The new records stay in memory even if the file cannot be written.
func (b *PoolRecords) save(next map[string]pooldir.RecordedPool) error {
	b.records = next
	if b.path == "" {
		return nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = WriteAtomic(b.path, data)
	}
	if err != nil {
		return fmt.Errorf("record the pools: %w", err)
	}
	return nil
}
