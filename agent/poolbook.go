package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"

	"quantix/internal/fleet"
)

// poolBookFile is the name of the book in the agent's directory.
const poolBookFile = "pools.json"

// RecordedPool is what an agent remembers of a pool of its host, from the first order to apply it until its release.
type RecordedPool struct {
	ID          fleet.PoolID `json:"id"`
	Path        string       `json:"path"`
	Place       *Place       `json:"place,omitempty"`    // nil: it has never been active
	Boot        string       `json:"boot,omitempty"`     // in which boot of the host it was last seen active
	Shared      bool         `json:"shared,omitempty"`   // other hosts write to it, or a server does
	Failing     bool         `json:"failing,omitempty"`  // it failed since, and is to be started again
	ByOthers    bool         `json:"byOthers,omitempty"` // somebody stopped it on the host since: what befalls its directory is no failure
	Preexisting PoolBefore   `json:"before,omitzero"`    // how the host had it before Quantix first used it
}

// PoolBefore is a libvirt pool as it was before Quantix first used it. Its release leaves it so. Zero: there was none, or nobody knows.
type PoolBefore struct {
	Defined   bool `json:"defined"`
	Active    bool `json:"active"`
	Autostart bool `json:"autostart"`
}

// Judge refuses a directory that is not the one that the pool was first used in; nil: nothing speaks against it.
func (k RecordedPool) Judge(now Sighting) error {
	switch {
	case now.Marker != "" && now.Marker != k.ID:
		return fleet.Errorf(fleet.Conflict, "The directory %s belongs to another pool (ID %s), as the file %s in it says. Choose another directory; or remove that file, if that pool is gone.",
			k.Path, clip(string(now.Marker)), PoolMarker)
	case k.Place == nil || now.Marker == k.ID:
		return nil
	case !now.There:
		return fleet.Errorf(fleet.Conflict, "The directory %s is gone. When it is back or mounted again, the pool is used again by itself.", k.Path)
	case now.Mount != k.Place.Mount && below(now.Mount.Point, k.Place.Mount.Point):
		return fleet.Errorf(fleet.Conflict, "Another file system lies over %s: %s, mounted at %s. When it is unmounted, the pool is used again by itself.",
			k.Path, now.Mount.words(), now.Mount.Point)
	case now.Mount != k.Place.Mount:
		return fleet.Errorf(fleet.Conflict, "The file system of %s is not mounted: %s belongs at %s. When it is mounted again, the pool is used again by itself.",
			k.Path, k.Place.Mount.words(), k.Place.Mount.Point)
	case k.Place.Marked:
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was made in: its marker %s is missing. Bring that directory back, or release the pool.", k.Path, PoolMarker)
	case now.Inode != k.Place.Inode:
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was made in. Bring that directory back, or release the pool.", k.Path)
	}
	return nil
}

// Unmounted reports whether what was mounted at the pool's directory is not, and nothing else is.
func (k RecordedPool) Unmounted(now Sighting) bool {
	return k.Place != nil && now.Mount.Point != k.Place.Mount.Point && below(k.Place.Mount.Point, now.Mount.Point)
}

func (m Mount) words() string {
	if m.Source == "" || m.Source == m.Type || m.Source == "none" {
		return m.Type
	}
	return m.Type + " of " + m.Source
}

// clip bounds what a stranger may have written.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 40)], "?")
}

// Stopped reports whether a pool that is not active now was stopped by somebody else and is theirs to start. One that failed
// is not, nor one that the host's boot could not start, unless somebody took its autostart away.
func (k RecordedPool) Stopped(boot string, autostart bool) bool {
	return k.Place != nil && !k.Failing && (k.Boot == boot || !autostart)
}

// PoolBook keeps over restarts what an agent knows of its host's pools and libvirt does not.
type PoolBook struct {
	path string // empty: only in memory
	boot string
	mu   sync.Mutex
	kept map[string]RecordedPool // by name
}

// OpenPoolBook reads the book of an agent's directory; with no directory it is kept in memory alone.
func OpenPoolBook(dir string) (*PoolBook, error) {
	b := &PoolBook{kept: map[string]RecordedPool{}}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		b.boot = strings.TrimSpace(string(boot))
	}
	if dir == "" {
		return b, nil
	}
	b.path = dir + "/" + poolBookFile
	data, err := os.ReadFile(b.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, &b.kept); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove the file to start without it", b.path, err)
		}
	}
	return b, nil
}

// Boot names the host's present boot.
func (b *PoolBook) Boot() string { return b.boot }

// Of is what is remembered of this very pool; another of its name is forgotten.
func (b *PoolBook) Of(p fleet.Pool) (RecordedPool, bool) {
	k, ok := b.Named(p.Name)
	if !ok || k.ID != p.ID {
		return RecordedPool{}, false
	}
	return k, true
}

// Named is what is remembered of the pool of that name.
func (b *PoolBook) Named(name string) (RecordedPool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ok := b.kept[name]
	return k, ok
}

// Holding is the pool of files below whose directory the path is, and that directory.
func (b *PoolBook) Holding(path string) (dir string, of RecordedPool, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.kept {
		if k.Path != "" && strings.HasPrefix(path, strings.TrimSuffix(k.Path, "/")+"/") && len(k.Path) > len(dir) {
			dir, of, ok = k.Path, k, true
		}
	}
	return dir, of, ok
}

// Put remembers a pool as it is now; nothing is written where nothing changed.
func (b *PoolBook) Put(name string, k RecordedPool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.kept[name]
	if ok && old.equal(k) {
		return nil
	}
	next := maps.Clone(b.kept)
	next[name] = k
	return b.save(next)
}

// Forget forgets a pool that was released.
func (b *PoolBook) Forget(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.kept[name]; !ok {
		return nil
	}
	next := maps.Clone(b.kept)
	delete(next, name)
	return b.save(next)
}

func (k RecordedPool) equal(o RecordedPool) bool {
	if (k.Place == nil) != (o.Place == nil) || k.Place != nil && *k.Place != *o.Place {
		return false
	}
	k.Place, o.Place = nil, nil
	return k == o
}

// save keeps the new state even where it cannot be written: the agent that runs knows it.
func (b *PoolBook) save(next map[string]RecordedPool) error {
	b.kept = next
	if b.path == "" {
		return nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = writeAtomic(b.path, data)
	}
	if err != nil {
		return fmt.Errorf("remember the pools: %w", err)
	}
	return nil
}
