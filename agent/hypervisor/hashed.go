package hypervisor

import "quantix/internal/fleet"

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
