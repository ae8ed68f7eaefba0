package pooldir

import (
	"strings"

	"quantix/internal/fleet"
)

// RecordedPool is the agent's record of a pool, from the first order to apply it until its release.
type RecordedPool struct {
	ID      fleet.PoolID `json:"id"`
	Path    string       `json:"path"`
	Place   *Place       `json:"place,omitempty"`   // nil: never active
	Boot    string       `json:"boot,omitempty"`    // the host boot when it was last seen active
	Shared  bool         `json:"shared,omitempty"`  // other hosts or a server write to it
	Failing bool         `json:"failing,omitempty"` // it has failed since, and must be restarted
	// somebody stopped it on the host since: a missing directory is no failure then
	ByOthers    bool       `json:"byOthers,omitempty"`
	Preexisting PoolBefore `json:"before,omitzero"` // its state before Quantix first used it
}

// PoolBefore is a libvirt pool's state before Quantix first used it; a release restores it. Zero: no such pool, or
// unknown.
type PoolBefore struct {
	Defined   bool `json:"defined"`
	Active    bool `json:"active"`
	Autostart bool `json:"autostart"`
}

// Judge returns an error unless the directory is the one that the pool was first used in.
func (k RecordedPool) Judge(now Sighting) error {
	switch {
	case now.Marker != "" && now.Marker != k.ID:
		return fleet.Errorf(fleet.Conflict, "The directory %s belongs to another pool (ID %s), as the file %s in it says. Choose another directory; or remove that file, if that pool is gone.",
			k.Path, clip(string(now.Marker)), Marker)
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
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was made in: its marker %s is missing. Bring that directory back, or release the pool.", k.Path, Marker)
	case now.Inode != k.Place.Inode:
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was made in. Bring that directory back, or release the pool.", k.Path)
	}
	return nil
}

// Unmounted reports whether the file system of the pool's directory is unmounted and no other one is mounted there.
func (k RecordedPool) Unmounted(now Sighting) bool {
	return k.Place != nil && now.Mount.Point != k.Place.Mount.Point && below(k.Place.Mount.Point, now.Mount.Point)
}

func (m Mount) words() string {
	if m.Source == "" || m.Source == m.Type || m.Source == "none" {
		return m.Type
	}
	return m.Type + " of " + m.Source
}

// clip limits the length of text from untrusted files.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 40)], "?")
}

// Stopped reports whether an inactive pool was stopped by somebody else, who must start it. It is false for a failed
// pool, and for one that the host's boot could not start, unless somebody removed its autostart.
func (k RecordedPool) Stopped(boot string, autostart bool) bool {
	return k.Place != nil && !k.Failing && (k.Boot == boot || !autostart)
}

func (k RecordedPool) Equal(o RecordedPool) bool {
	if (k.Place == nil) != (o.Place == nil) || k.Place != nil && *k.Place != *o.Place {
		return false
	}
	k.Place, o.Place = nil, nil
	return k == o
}
