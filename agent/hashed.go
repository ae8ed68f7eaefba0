package agent

import (
	"slices"

	"quantix/internal/fleet"
)

// Hashed is a volume whose checksum this host has computed.
type Hashed struct {
	Ref    fleet.Volref `json:"ref"`
	SHA256 string       `json:"sha256"`
	// Stamp identifies the file's state at that time: only the backend reads it.
	Stamp string `json:"stamp"`
}

// Report adds the checksum to the volume. same: the file is unchanged since, as far as can be known.
func (h Hashed) Report(v *fleet.Volume, same bool) {
	if v.Altered = !same; same {
		v.SHA256 = h.SHA256
	}
}

// maxHashed limits the number of stored checksums; the newest are all.
const maxHashed = 512

// noteHashed stores new checksums.
func (m *stateFile) noteHashed(fresh ...Hashed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o Hashed) bool {
		return slices.ContainsFunc(fresh, func(h Hashed) bool { return h.Ref == o.Ref })
	})
	all = append(all, fresh...)
	m.data.Hashed = all[max(0, len(all)-maxHashed):]
	return m.save()
}

// hashed returns the stored checksums, by volume.
func (m *stateFile) hashed() map[fleet.Volref]Hashed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[fleet.Volref]Hashed, len(m.data.Hashed))
	for _, h := range m.data.Hashed {
		out[h.Ref] = h
	}
	return out
}

// removeHash deletes the checksum of a deleted volume.
func (m *stateFile) removeHash(ref fleet.Volref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o Hashed) bool { return o.Ref == ref })
	if len(all) == len(m.data.Hashed) {
		return nil
	}
	m.data.Hashed = all
	return m.save()
}

// CopyDiffers refuses a copy whose bytes differ from the order's checksum.
func CopyDiffers(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: its SHA-256 is %s, and the image's %s. Nothing of it was all.", name, got, want)
}

// VerifyDiffers reports that a copy no longer matches its image.
func VerifyDiffers(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: its SHA-256 is %s, and the image's %s.", name, got, want)
}

// VolumeChanged refuses a volume that was written to while it was read.
func VolumeChanged(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s was written to while it was being read, so nobody can tell what it holds. Try again when nobody writes to it.", name)
}

// NoSource reports that the order came without the pool that it reads from.
func NoSource() error {
	return fleet.Errorf(fleet.Invalid, "The order names no pool to copy from, or one that is not set up on this host. Assign it first.")
}
