package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
)

// filterBookFile is the name of the book in the agent's directory.
const filterBookFile = "filters.json"

// FilterBook keeps over restarts what the network filters that Quantix defined on its host were like: what is another now was changed by
// somebody else.
type FilterBook struct {
	path string // empty: only in memory
	mu   sync.Mutex
	kept map[string]string // digests by the filters' names
}

// OpenFilterBook reads the book of an agent's directory; with no directory it is kept in memory alone.
func OpenFilterBook(dir string) (*FilterBook, error) {
	b := &FilterBook{kept: map[string]string{}}
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
		if err := json.Unmarshal(data, &b.kept); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove the file to start without it", b.path, err)
		}
	}
	return b, nil
}

// All are the digests of all filters, by their names.
func (b *FilterBook) All() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.kept)
}

// Of is the filter's digest; empty: it is not known.
func (b *FilterBook) Of(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[name]
}

// Put remembers a filter as it is now; with an empty digest it is forgotten. Nothing is written where nothing changed.
func (b *FilterBook) Put(name, digest string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[name] == digest {
		return nil
	}
	next := maps.Clone(b.kept)
	if next[name] = digest; digest == "" {
		delete(next, name)
	}
	b.kept = next // also where it cannot be written: the agent that runs knows it
	if b.path == "" {
		return nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = writeAtomic(b.path, data)
	}
	if err != nil {
		return fmt.Errorf("remember the network filters: %w", err)
	}
	return nil
}

// FilterChanged is said of a network filter that is not as Quantix left it.
func FilterChanged(name string) string {
	return "Somebody changed the network filter " + name + " on the host."
}

// FilterGone is likewise of one that is not there any more.
func FilterGone(name string) string {
	return "Somebody removed the network filter " + name + " from the host."
}
