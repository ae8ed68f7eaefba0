package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
)

// filterBookFile is the name of FilterDigests's file in the agent's directory.
const filterBookFile = "filters.json"

// FilterDigests stores, across restarts, the digests of network filters that Quantix defined on the host. A different
// digest means that somebody else changed the filter. It is safe for concurrent use.
type FilterDigests struct {
	path    string // empty: only in memory
	mu      sync.Mutex
	digests map[string]string // digest by filter name
}

// OpenFilterDigests reads the FilterDigests of an agent's directory. With an empty dir the records exist in memory only.
func OpenFilterDigests(dir string) (*FilterDigests, error) {
	b := &FilterDigests{digests: map[string]string{}}
	if dir == "" {
		return b, nil
	}
	b.path = dir + "/" + filterBookFile
	data, err := os.ReadFile(b.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, &b.digests); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove the file to start without it", b.path, err)
		}
	}
	return b, nil
}

// All returns the digests of all filters, by name.
func (b *FilterDigests) All() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.digests)
}

// Digest returns a filter's digest; empty: there is no record.
func (b *FilterDigests) Digest(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.digests[name]
}

// Put records a filter's digest; an empty digest deletes the record. Put writes the file only after a change.
func (b *FilterDigests) Put(name, digest string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.digests[name] == digest {
		return nil
	}
	next := maps.Clone(b.digests)
	if next[name] = digest; digest == "" {
		delete(next, name)
	}
	b.digests = next // even if the file cannot be written
	if b.path == "" {
		return nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = WriteAtomic(b.path, data)
	}
	if err != nil {
		return fmt.Errorf("record the network filters: %w", err)
	}
	return nil
}
