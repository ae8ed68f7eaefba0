package pooldir

import (
	"strings"

	"quantix/internal/fleet"
)

// RecordedPool is the agent's record of a pool, from the first job that applies the pool until its release.
type RecordedPool struct {
	ID      fleet.PoolID `json:"id"`
	Path    string       `json:"path"`
	Place   *RecordedDir `json:"place,omitempty"`   // nil: the pool was never active
	Boot    string       `json:"boot,omitempty"`    // the host boot when the pool was last seen active
	Shared  bool         `json:"shared,omitempty"`  // other hosts or a server write to the pool's directory
	Failing bool         `json:"failing,omitempty"` // the pool has failed since, and must be restarted
	// somebody stopped the pool on the host since its first use; a missing directory is then no failure
	ByOthers    bool           `json:"byOthers,omitempty"`
	Preexisting PriorPoolState `json:"before,omitzero"` // state before Quantix first used the pool
}

// PriorPoolState is a libvirt pool's state before Quantix first used the pool. A release restores this state. Zero:
// there was no such pool, or its state is unknown.
type PriorPoolState struct {
	Defined   bool `json:"defined"`
	Active    bool `json:"active"`
	Autostart bool `json:"autostart"`
}

// CheckDir returns an error unless reading describes the directory that the pool was first used in.
func (k RecordedPool) CheckDir(reading DirReading) error {
	switch {
	case reading.Marker != "" && reading.Marker != k.ID:
		return fleet.Errorf(fleet.Conflict, "The directory %s belongs to another pool (ID %s), according to its file %s. Choose another directory, or remove that file if the other pool no longer exists.",
			k.Path, shortenText(string(reading.Marker)), MarkerFile)
	case k.Place == nil || reading.Marker == k.ID:
		return nil
	case !reading.Exists:
		return fleet.Errorf(fleet.Conflict, "The directory %s is missing. When the directory is back or mounted again, the pool is used again automatically.", k.Path)
	case reading.Mount != k.Place.Mount && isPathWithinDir(reading.Mount.Point, k.Place.Mount.Point):
		return fleet.Errorf(fleet.Conflict, "Another file system hides %s: %s, mounted at %s. When that file system is unmounted, the pool is used again automatically.",
			k.Path, reading.Mount.describe(), reading.Mount.Point)
	case reading.Mount != k.Place.Mount:
		return fleet.Errorf(fleet.Conflict, "The file system of %s is not mounted: %s must be mounted at %s. When the file system is mounted again, the pool is used again automatically.",
			k.Path, k.Place.Mount.describe(), k.Place.Mount.Point)
	case k.Place.Marked:
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was created in: its marker %s is missing. Restore that directory, or release the pool.", k.Path, MarkerFile)
	case reading.Inode != k.Place.Inode:
		return fleet.Errorf(fleet.Conflict, "The directory %s is not the one that this pool was created in. Restore that directory, or release the pool.", k.Path)
	}
	return nil
}

// IsUnmounted reports whether the file system of the pool's directory is unmounted and no other file system is mounted
// there.
func (k RecordedPool) IsUnmounted(now DirReading) bool {
	return k.Place != nil && now.Mount.Point != k.Place.Mount.Point && isPathWithinDir(k.Place.Mount.Point, now.Mount.Point)
}

func (m Mount) describe() string {
	if m.Source == "" || m.Source == m.Type || m.Source == "none" {
		return m.Type
	}
	return m.Type + " of " + m.Source
}

// shortenText limits text from untrusted files to 40 bytes.
func shortenText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 40)], "?")
}

// IsStoppedByOthers reports whether an inactive pool was stopped by somebody else, who must start it. It is false for a
// failed pool, and for a pool with autostart that the host's boot could not start.
func (k RecordedPool) IsStoppedByOthers(boot string, autostart bool) bool {
	return k.Place != nil && !k.Failing && (k.Boot == boot || !autostart)
}

func (k RecordedPool) Equal(o RecordedPool) bool {
	if (k.Place == nil) != (o.Place == nil) || k.Place != nil && *k.Place != *o.Place {
		return false
	}
	k.Place, o.Place = nil, nil
	return k == o
}
