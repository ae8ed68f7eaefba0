package agent

import (
	"slices"

	"quantix/internal/fleet"
)

// Hashed is a volume of which this host has computed the checksum.
type Hashed struct {
	Ref    fleet.Volref `json:"ref"`
	SHA256 string       `json:"sha256"`
	// Stamp tells the file, as it was then, from what it may become: the backend alone reads it.
	Stamp string `json:"stamp"`
}

// Report notes on the volume what is known of its checksum. same: it is the file that it was then, as far as anybody can tell.
func (h Hashed) Report(v *fleet.Volume, same bool) {
	if v.Altered = !same; same {
		v.SHA256 = h.SHA256
	}
}

// mostHashed bounds the checksums that are kept: the newest.
const mostHashed = 512

// noteHashed keeps checksums that were computed just now.
func (m *stateFile) noteHashed(fresh ...Hashed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(m.kept.Hashed), func(o Hashed) bool {
		return slices.ContainsFunc(fresh, func(h Hashed) bool { return h.Ref == o.Ref })
	})
	kept = append(kept, fresh...)
	m.kept.Hashed = kept[max(0, len(kept)-mostHashed):]
	return m.save()
}

// hashed are the checksums that were computed, by volume.
func (m *stateFile) hashed() map[fleet.Volref]Hashed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[fleet.Volref]Hashed, len(m.kept.Hashed))
	for _, h := range m.kept.Hashed {
		out[h.Ref] = h
	}
	return out
}

// unhash forgets the checksum of a volume that is gone.
func (m *stateFile) unhash(ref fleet.Volref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(m.kept.Hashed), func(o Hashed) bool { return o.Ref == ref })
	if len(kept) == len(m.kept.Hashed) {
		return nil
	}
	m.kept.Hashed = kept
	return m.save()
}

// CopyDiffers refuses a copy that has other bytes than the order says.
func CopyDiffers(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: its SHA-256 is %s, and the image's %s. Nothing of it was kept.", name, got, want)
}

// VerifyDiffers says that a copy is none any more.
func VerifyDiffers(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: its SHA-256 is %s, and the image's %s.", name, got, want)
}

// VolumeChanged refuses what was written to while it was read.
func VolumeChanged(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s was written to while it was being read, so nobody can tell what it holds. Try again when nobody writes to it.", name)
}

// NoSource says that the order does not come with the pool that it reads from.
func NoSource() error {
	return fleet.Errorf(fleet.Invalid, "The order names no pool to copy from, or one that is not set up on this host. Assign it first.")
}
